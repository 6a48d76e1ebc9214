"""The record of an operator, and the registry of all records.

A record has all that the compiler knows about an operator of the ONNX specification: operands, element
types, attributes, the rules a node must satisfy, the shape of the result and the reference computation.
Checking, inference, the reference run, the table of supported operators and the parts of operands that a
part of a result needs are derived from it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Flag, auto
from typing import Any

from compiler.graph import Array, AttrValue, Box, Graph, Node, Shape, Tensor

Reference = Callable[..., tuple[Array, ...]]
"""Computes the outputs of a call from its operands (:class:`Operator`)."""


@dataclass(frozen=True)
class Types:
    """A type constraint. Operands whose constraints have the same name have one dtype; others each have
    its own."""

    name: str
    allowed: tuple[str, ...]

    def named(self, name: str) -> Types:
        """Return these types under another name."""
        return Types(name, self.allowed)


@dataclass(frozen=True)
class Input:
    """An operand."""

    name: str
    types: Types
    optional: bool = False
    variadic: bool = False  # the last operand, which may occur any number of times, but at least once
    constant: bool = False  # its value must be known at compile time
    since: int = 1  # the first operator set that has it
    factor: bool = False  # a scale of bytes: code multiplies or divides by it, unless it is 1


@dataclass(frozen=True)
class Output:
    """A result; it has the dtype of the inputs with the same constraint, or the only allowed one."""

    name: str
    types: Types
    optional: bool = False
    variadic: bool = False  # the last result, which may occur any number of times


@dataclass(frozen=True)
class Attribute:
    """An attribute, which may be absent if it is not required and has no default."""

    name: str
    kind: str  # int, float, string, ints, floats or strings
    default: AttrValue | None = None
    required: bool = False
    allowed: tuple[int | str, ...] = ()  # the values of an enumeration
    minimum: int | None = None  # of an integer, or of every element of a list
    since: int = 1  # the first operator set that has it
    until: int | None = None  # the last one; None: no operator set has removed it
    factor: bool = False  # a number that code multiplies by, unless it is 0 or 1; nothing else depends on it

    def known_to(self, opset: int) -> bool:
        return self.since <= opset and (self.until is None or opset <= self.until)


@dataclass(frozen=True)
class Call:
    """One node with its operands resolved, for rules, shape functions, references, expansions and lowerings.

    ``inputs`` and ``values`` have an entry per declared operand, more if the last is variadic.
    """

    opset: int
    attrs: Mapping[str, AttrValue]
    inputs: tuple[Tensor | None, ...]  # None: omitted
    values: tuple[Array | None, ...]  # the data of operands that are constants, else None
    outputs: tuple[str, ...]  # names; empty: not wanted
    bodies: tuple[Graph, ...] = ()
    answers: dict[object, object] = field(default_factory=dict, init=False, repr=False, compare=False)
    """Cache of functions of the call: results by function and arguments."""

    @property
    def has_known_sizes(self) -> bool:
        """True if all extents, values and attributes are numbers, none of them a dynamic size."""
        shapes = (tensor.shape for tensor in self.inputs if tensor is not None)
        lists = (value if isinstance(value, tuple) else (value,) for value in self.attrs.values())
        numbers = itertools.chain(*shapes, *lists)
        arrays = (value for value in self.values if value is not None)
        return all(isinstance(each, int | float | str) for each in numbers) and all(
            array.dtype != object for array in arrays
        )

    def has(self, index: int) -> bool:
        return index < len(self.inputs) and self.inputs[index] is not None

    def tensor(self, index: int) -> Tensor:
        tensor = self.inputs[index]
        if tensor is None:
            raise ValueError(f"operand {index} was omitted")
        return tensor

    def name(self, index: int) -> str:
        """Return the name of an operand, empty if it was omitted."""
        return self.tensor(index).name if self.has(index) else ""

    def shape(self, index: int) -> Shape:
        return self.tensor(index).shape

    def value_ints(self, index: int) -> tuple[int, ...] | None:
        """Return the elements of a constant integer operand; None if the operand was omitted."""
        value = self.values[index] if index < len(self.values) else None
        return None if value is None else tuple(value.reshape(-1).tolist())

    def integer(self, name: str) -> int:
        value = self.attrs[name]
        if isinstance(value, float | str | tuple):
            raise TypeError(f"attribute {name} is not an integer: {value!r}")
        return value

    def number(self, name: str) -> float:
        value = self.attrs[name]
        if not isinstance(value, int | float):
            raise TypeError(f"attribute {name} is not a number: {value!r}")
        return float(value)

    def string(self, name: str) -> str:
        return str(self.attrs[name])

    def integers(self, name: str) -> tuple[int, ...] | None:
        """Return the value of an attribute that is a list of integers; None if absent."""
        value = self.attrs.get(name)
        if value is None:
            return None
        if not isinstance(value, tuple):
            raise TypeError(f"attribute {name} is not a list: {value!r}")
        return value  # type: ignore[return-value]  # the records say which lists are of integers

    def numbers(self, name: str) -> tuple[float, ...] | None:
        """Return the value of an attribute that is a list of numbers; None if absent."""
        value = self.attrs.get(name)
        return None if value is None else tuple(float(element) for element in value)  # type: ignore[union-attr]

    def wants(self, output: int) -> bool:
        """Return True if an optional result is wanted."""
        return output < len(self.outputs) and bool(self.outputs[output])


@dataclass(frozen=True)
class Rule:
    """A condition on a call: ``text`` is for users, ``check`` returns None or the offending value as text.

    Rules are checked in order until one is violated, so a rule may rely on earlier ones.
    """

    text: str
    check: Callable[[Call], str | None]


Expansion = Callable[[Any, Call], "tuple[str, ...] | None"]
"""Adds to a builder (:class:`compiler.operators.expansion.builder.Builder`) the nodes that replace a call.

The result names the values that replace the outputs, or is None for a call that the operator's own lowering
computes.
"""


Needs = Callable[[Call, int, Box], "tuple[Box | None, ...]"]
"""Returns the boxes of the operands that a box of one result, given by its number, is computed from.

The box has elements. None is an operand that is not read; such operands at the end may be missing. Boxes may
reach beyond their operands, as those of windows do: the elements there are padding.
"""


def rule(check: Callable[[Call], str | None]) -> Rule:
    """Make a rule from a function, whose docstring is the text for users."""
    if not check.__doc__:
        raise ValueError(f"rule {check.__name__} needs a docstring")
    return Rule(" ".join(check.__doc__.split()), check)


@dataclass(frozen=True)
class Intermediates:
    """Elements that a reference computes besides operands and results."""

    held: int = 0
    """The most elements that are held at a time."""
    computed: int = 0
    """The number of elements that are computed altogether."""


class Law(Flag):
    """Laws that hold for all operands and allow an operator to be exchanged with other operations."""

    EXACT = auto()
    """Results are operands, known limits or negatives of these, so rounding can come before or after the
    operator."""
    RISING = auto()
    """No result falls when an operand rises, so maxima can be taken before or after the operator."""
    HOMOGENEOUS = auto()
    """A positive factor of the first operand, for each channel, is also a factor of the results."""
    SUM = auto()
    """A result is the sum of the operands' elements at its place, with no other terms."""


NO_LAWS = Law(0)


@dataclass(frozen=True)
class Contraction:
    """An operator's product: results are sums of products of operands 0 and 1, plus operand 2 if given.

    ``terms``: the number of products in a sum. ``columns``: the axis of operand 1 that has the weights of
    each column or channel of the results.
    """

    terms: Callable[[Call], int]
    columns: Callable[[Call], int]


@dataclass(frozen=True)
class Normalization:
    """A normalization of rows: variance 1, then times operand 1, plus operand 2 if it is given.

    ``axes``: the axes of a row. ``centred``: the mean is subtracted before. The attribute ``epsilon`` is
    added to the variance.
    """

    axes: Callable[[Call], tuple[int, ...]]
    centred: bool


Uniform = Callable[[Call, int], bool]
"""True if an operator does the same everywhere along an axis of its results.

Then the operator on parts of its operands makes a part of the results, where ``needs`` says that these parts
belong together. What attributes, indices or positions say of an axis is not true of a part of it.
"""


@dataclass(frozen=True)
class Operator:
    """The record of one operator.

    ``reference(call, *arrays)`` computes the outputs: float operands arrive and float results leave as
    binary64, integers and truth values in their own dtype, and an omitted operand is None.

    An operator without ``needs`` does not split: any part of a result takes the operands whole.

    A ``precise`` operator has an expansion whose intermediate results exceed the range or the precision of
    short formats. So it is computed in FP32 whatever the compute type.

    ``window`` returns the geometry (:class:`compiler.operators.windows.geometry.Window`) of an operator that
    slides windows over an image. On several chips, each chip computes the whole operator unless ``uniform``
    is given or it computes element by element. A ``quantised`` operator converts numbers to integers of a
    scale or back, or computes with such integers. Its scales are binary32 in every program. An operator that
    is ``written_out`` is expanded before all others, because rewrites know its parts.
    """

    name: str
    since: int  # the oldest operator set whose meaning the record has
    summary: str
    inputs: tuple[Input, ...]
    outputs: tuple[Output, ...]
    shapes: Callable[[Call], tuple[Shape, ...]]  # of the outputs of a call that satisfies the rules
    reference: Reference
    attributes: tuple[Attribute, ...] = ()
    rules: tuple[Rule, ...] = ()
    dtypes: Callable[[Call], tuple[str, ...]] | None = None  # of the outputs, where constraints do not say
    expansion: Expansion | None = None
    ranged_expansion: Expansion | None = None  # for dynamic sizes
    needs: Needs | None = None
    scratch: Callable[[Call], Intermediates] = lambda call: Intermediates()
    bodies: tuple[str, ...] = ()  # roles of the graphs that a node of control flow executes
    moves: bool = False  # results are elements of operands, or zeros, whatever these are
    reshapes: bool = False  # it moves, and the elements stay in their order
    laws: Law = NO_LAWS
    product: Contraction | None = None
    window: Callable[[Call], Any] | None = None
    normalization: Normalization | None = None
    uniform: Uniform | None = None
    quantised: bool = False
    written_out: bool = False
    internal: bool = False  # only expansions and rewrites use the operator
    at_run: bool = False  # for constants too: each of several chips has its own result, or it reports a size
    precise: bool = False

    @property
    def keeps_elements(self) -> bool:
        """True if results are elements of the first operand, moved or chosen: bytes keep their scale."""
        kept = self.moves or (self.window is not None and Law.EXACT in self.laws)
        sources = [item for item in self.inputs if item.types.name == self.outputs[0].types.name]
        alone = len(sources) == 1 and not sources[0].variadic and "int8" in sources[0].types.allowed
        return kept and alone

    @property
    def limits(self) -> bool:
        """True if results are the first operand limited to a range, which the other operands give."""
        chooses = Law.EXACT | Law.RISING in self.laws and not self.inputs[0].variadic
        return chooses and not self.keeps_elements

    @property
    def multiplies_matrices(self) -> bool:
        """True for a product without windows: its columns are the last axis of the result."""
        return self.product is not None and self.window is None

    def inputs_at(self, opset: int) -> tuple[Input, ...]:
        """Return the operands that this operator has in an operator set."""
        return tuple(item for item in self.inputs if item.since <= opset)

    def infer(self, call: Call) -> tuple[Tensor, ...]:
        """Return the wanted outputs of a call that satisfies the rules, with dtype and shape."""
        shapes = self.shapes(call)
        declared = [self.outputs[min(at, len(self.outputs) - 1)] for at in range(len(shapes))]
        dtypes = self.dtypes(call) if self.dtypes else [self._dtype(call, out) for out in declared]
        named = zip(call.outputs, dtypes, shapes, strict=False)
        return tuple(Tensor(name, dtype, shape) for name, dtype, shape in named if name)

    def needed(
        self, call: Call, boxes: Sequence[Box | None], with_padding: bool = False
    ) -> tuple[Box | None, ...]:
        """Return the smallest known box of each operand that boxes of the results are computed from.

        ``with_padding`` includes positions beyond the operand if windows reach there. ``boxes`` has one for
        each result, None or empty if it is not wanted. None in the answer means that an operand is not read.
        Values fixed by a constant operand are known and not read.
        """
        found: list[Box | None] = [None] * len(call.inputs)
        for number, box in enumerate(boxes):
            if box is None or not box.size:
                continue
            for at, part in enumerate(self._needs(call, number, box)):
                inside = part.within(call.shape(at)) if part is not None and call.has(at) else None
                inside = part if with_padding and inside is not None else inside
                if inside is not None and inside.size:
                    before = found[at]
                    found[at] = inside if before is None else before.united(inside)
        return tuple(found)

    def _needs(self, call: Call, number: int, box: Box) -> tuple[Box | None, ...]:
        if self.needs is not None:
            return self.needs(call, number, box)
        declared = (self.inputs[min(at, len(self.inputs) - 1)] for at in range(len(call.inputs)))
        pairs = zip(call.inputs, declared, strict=True)
        return tuple(Box.whole(t.shape) if t is not None and not i.constant else None for t, i in pairs)

    def _dtype(self, call: Call, output: Output) -> str:
        for item, tensor in zip(self.inputs, call.inputs, strict=False):
            if tensor is not None and item.types.name == output.types.name:
                return tensor.dtype
        return output.types.allowed[0]


OPERATORS: dict[str, Operator] = {}


def register(record: Operator) -> Operator:
    """Add a record to the registry; a name can be taken once."""
    if record.name in OPERATORS:
        raise ValueError(f"operator {record.name} is registered twice")
    OPERATORS[record.name] = record
    return record


def resolve(
    node: Node, opset: int, tensors: Mapping[str, Tensor], constants: Mapping[str, Array], operands: int
) -> Call:
    """Return the call of a node whose inputs are all in ``tensors``, padded to ``operands`` entries."""
    names = node.inputs + ("",) * (operands - len(node.inputs))
    return Call(
        opset=opset,
        attrs=node.attrs,
        inputs=tuple(tensors[name] if name else None for name in names),
        values=tuple(constants.get(name) if name else None for name in names),
        outputs=node.outputs,
        bodies=node.bodies,
    )


def call_of(graph: Graph, node: Node) -> Call:
    """Return the call of a node of a checked graph."""
    return resolve(node, graph.opset, graph.tensors, graph.constants, len(OPERATORS[node.op].inputs))


def is_known(node: Node, position: int) -> bool:
    """Return True if the operator's record needs the value of this operand at compile time."""
    inputs = OPERATORS[node.op].inputs
    return inputs[min(position, len(inputs) - 1)].constant
