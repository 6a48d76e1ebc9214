"""The free dimensions of a program of ``torch.export``: their names, and the sizes that it was exported for.

An axis of an input is an expression of symbols that PyTorch has named, such as ``s17`` or ``s17 + 1``. The
names of ``torch.export.Dim`` are known while the program is in memory; ``tx8.pytorch.save`` writes them too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from compiler.graph import GraphError

if TYPE_CHECKING:
    from onnx import ValueInfoProto
    from torch.export import ExportedProgram

    from compiler.evaluation.sizes.ranges import Ranges

_ASSUMED_LEAST = 2
"""The least size of a symbol without other limits.

PyTorch traces it with sizes of 2 and more, and runs the program for 0 and 1 as well.
"""

Expression = Any
"""An expression of SymPy, over symbols with the names of dimensions."""


def names_of(program: ExportedProgram) -> dict[str, str]:
    """Return the names of torch.export.Dim by symbol; none for a program that was saved and loaded."""
    found: dict[str, str] = {}
    for extent in _free_extents(program):
        scope = extent.node.shape_env
        given = getattr(scope, "source_name_to_debug_name", {})
        for symbol, sources in getattr(scope, "var_to_sources", {}).items():
            known = scope.replacements.get(symbol, symbol)
            for source in sources if known.is_Symbol else ():
                text = source.name() if callable(source.name) else source.name
                name = given.get(text, text)  # a symbol that is no axis itself is its own source
                if name.isidentifier():
                    found.setdefault(str(known), name)
    return found


def _free_extents(program: ExportedProgram) -> Iterator[Any]:
    """Yield the extents of inputs that PyTorch has no number for."""
    for node in program.graph.nodes:
        if node.op == "placeholder":
            for extent in getattr(node.meta.get("val"), "shape", ()):
                if not isinstance(extent, int):
                    yield extent


@dataclass(frozen=True)
class FreeAxis:
    """An axis of an input, and the expression of its size."""

    input: str
    axis: int
    size: Expression

    def __str__(self) -> str:
        return f"input '{self.input}': axis {self.axis}"


class Dimensions:
    """The free dimensions of a program, and the inputs with them; ``names`` are the symbols' names."""

    def __init__(self, program: ExportedProgram, names: Mapping[str, str]) -> None:
        expressions = [extent.node.expr for extent in _free_extents(program)]
        self._named = {str(each): _renamed(each, names) for each in expressions}
        self.axes: list[FreeAxis] = []
        self._limits = {
            names.get(str(symbol), str(symbol)): _limits_of(allowed)
            for symbol, allowed in program.range_constraints.items()
            if symbol.is_Symbol
        }

    def write_names(self, inputs: Iterable[ValueInfoProto]) -> None:
        """Give the axes of ONNX inputs the names of the dimensions, and record the free ones."""
        for info in inputs:
            for axis, dim in enumerate(info.type.tensor_type.shape.dim):
                if dim.dim_param in self._named:
                    size = self._named[dim.dim_param]
                    dim.dim_param = str(size)
                    self.axes.append(FreeAxis(info.name, axis, size))

    def check_ranges(self, ranges: Ranges, source: str) -> None:
        """Raise GraphError for a range with sizes that the program was not exported for.

        A range is refused too if the size of an axis depends on it in a way that an image cannot express.
        """
        least, most = (ranges.model_sizes(point) for point in (ranges.least, ranges.most))
        for name in most:
            if not self._allowed(name, least[name]) or not self._allowed(name, most[name]):
                found, wanted = f"{least[name]} to {most[name]}", self._limit_text(name)
                raise GraphError(
                    [f"{source}: dimension {name}: {found}; the program was exported for {wanted}"]
                )
        for axis in self.axes:
            texts = map(str, (axis.size, *axis.size.free_symbols))
            if not _is_sum(axis.size) and not most.keys().isdisjoint(texts):
                wanted = "a dimension, perhaps plus others or a number; give the input a shape with --shape"
                raise GraphError([f"{source}: {axis} is {axis.size}; expected {wanted}"])

    def check_shapes(self, inputs: Iterable[ValueInfoProto], source: str) -> None:
        """Raise GraphError for given shapes that the program was not exported for."""
        found = {info.name: info.type.tensor_type.shape.dim for info in inputs}
        sizes: dict[Expression, int] = {}
        for axis in sorted(self.axes, key=lambda each: not each.size.is_Symbol):
            dim = found[axis.input][axis.axis]
            if dim.HasField("dim_value"):
                self._check_size(axis, int(dim.dim_value), sizes, f"{source}: {axis} is {dim.dim_value}")

    def _check_size(self, axis: FreeAxis, extent: int, sizes: dict[Expression, int], head: str) -> None:
        """Raise GraphError unless an axis can have a size.

        A symbol that it determines is added to ``sizes``.
        """
        size = axis.size.subs(sizes)
        if len(size.free_symbols) == 1:
            (symbol,) = size.free_symbols
            sizes[symbol] = _solution(size, symbol, extent)
            size = size.subs(symbol, sizes[symbol])
            if size == extent and not self._allowed(str(symbol), sizes[symbol]):
                wanted = f"the program was exported for {symbol} from {self._limit_text(str(symbol))}"
                raise GraphError([f"{head}; {wanted}"])
        if not size.free_symbols and size != extent:
            raise GraphError([f"{head}; expected {axis.size}, such as {size}"])

    def _allowed(self, name: str, size: int) -> bool:
        least, most = self._limits.get(name, (0, None))
        return size >= least and (most is None or size <= most)

    def _limit_text(self, name: str) -> str:
        least, most = self._limits[name]
        return f"{least} on" if most is None else f"{least} to {most}"


def _renamed(size: Expression, names: Mapping[str, str]) -> Expression:
    """Return an expression with the names of dimensions in place of PyTorch's own."""
    return size.xreplace({each: type(each)(names.get(str(each), str(each))) for each in size.free_symbols})


def _limits_of(allowed: Any) -> tuple[int, int | None]:
    """Return the least and the most size of a symbol, None if there is no most."""
    least, most = str(allowed.lower), str(allowed.upper)
    known = int(least) if least.isdigit() else 0
    return 0 if known <= _ASSUMED_LEAST else known, int(most) if most.isdigit() else None


def _is_sum(size: Expression) -> bool:
    """Return True if a size is a dimension, or a sum of dimensions and numbers."""
    parts = size.args if size.is_Add else (size,)
    return all(part.is_Symbol or (part.is_Integer and part > 0) for part in parts)


def _solution(size: Expression, symbol: Expression, extent: int) -> int:
    """Return the value of a symbol at which its linear expression equals an extent, rounded down."""
    first = int(size.subs(symbol, 0))
    return (extent - first) // int(size.subs(symbol, 1) - first)
