"""The base class of the dialect's operations on tensors."""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.dialects.builtin import ArrayAttr, DenseArrayBase, DictionaryAttr, StringAttr, UnitAttr
from xdsl.ir import Attribute
from xdsl.irdl import IRDLOperation, attr_def, opt_attr_def, var_operand_def, var_result_def
from xdsl.utils.exceptions import VerifyException

from .homes import Home, HomeAttr
from .types import format_of, order_of, shape_of


class TensorOperation(IRDLOperation):
    """An operation on tensors.

    ``node`` names the graph node that it computes; the passes fill in ``home`` and the attributes after it.
    ``home``: the distribution of its result over the scratchpads; a result without home is in DDR.
    ``updates``: the graph input whose memory receives the result. ``sizes``: formulas of the results' dynamic
    extents. With ``barrier`` its phase begins by waiting for all tiles.
    """

    arguments = var_operand_def()
    products = var_result_def()
    node = attr_def(StringAttr)
    operands_at = opt_attr_def(DenseArrayBase)
    attributes_of_node = opt_attr_def(DictionaryAttr, attr_name="onnx")
    home = opt_attr_def(HomeAttr)
    dev_info = opt_attr_def(DictionaryAttr)
    barrier = opt_attr_def(UnitAttr)
    updates = opt_attr_def(StringAttr)
    sizes = opt_attr_def(ArrayAttr)

    @property
    def op(self) -> str:
        """The key of the operation's lowering in ``LOWERINGS``."""
        return self.name

    @property
    def symbol(self) -> str:
        """The symbol of the first result's memory in DDR; ValueError before pass ``ddr_reorder``."""
        return self.symbol_of(0)

    def symbol_of(self, number: int) -> str:
        """The symbol of the memory of a result in DDR; ValueError before pass ``ddr_reorder``."""
        symbol = self.place(number).get("ddr")
        if not isinstance(symbol, StringAttr):
            raise ValueError(f"{self.name} of node '{self.node.data}' has no place in DDR yet")
        return symbol.data

    def place(self, number: int) -> Mapping[str, Attribute]:
        """Return the ``dev_info`` entries of a result: the first result's are direct, others in ``more``."""
        entries = self.dev_info.data if self.dev_info is not None else {}
        if number == 0:
            return entries
        more = entries.get("more")
        found = more.data[number - 1] if isinstance(more, ArrayAttr) and number <= len(more) else None
        return found.data if isinstance(found, DictionaryAttr) else {}

    def refuse(self, problem: str) -> VerifyException:
        """Return the exception that a verifier raises for a problem of this operation."""
        return VerifyException(f"{self.name} of node '{self.node.data}': {problem}")

    def verify_(self) -> None:
        for value in (*self.operands, *self.results):
            try:
                format_of(value.type)
                order_of(value.type)
            except ValueError as error:
                raise self.refuse(str(error)) from None
        if self.home is not None:
            self._check_home(self.home.data)
        positions = self.operands_at
        if positions is not None and len(positions.get_values()) != len(self.operands):
            raise self.refuse(
                f"{len(self.operands)} operands, operands_at names {len(positions.get_values())}"
            )

    def _check_home(self, home: Home) -> None:
        if len(self.results) != 1:
            raise self.refuse(f"a home for {len(self.results)} results")
        problem = home.problem(len(shape_of(self.results[0].type)))
        if problem is not None:
            raise self.refuse(problem)
