"""Calls of single operators, to test that a box of a result depends only on the boxes of operands in records.

Operand elements outside of these boxes are replaced by NaN or by other numbers, and the box of the result
must keep every bit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from compiler.evaluation.infer import infer_node
from compiler.graph import NEWEST_OPSET, Array, Box, Description, Node, Tensor
from compiler.operators import OPERATORS
from compiler.operators.expansion.builder import widened
from compiler.operators.record import Call, Operator, resolve
from operator_draws import Random, small

Compute = Callable[[Sequence[Array | None]], Sequence[Array]]
"""The results of a call for other operands of the same shapes."""


@dataclass(frozen=True)
class PartCase:
    """A call with its operands in order, None for one omitted; those in ``known`` are constants.

    Operands that the record calls constant are constants, too. ``outputs`` is the number of results. The
    operator set is by default the newest.
    """

    op: str
    operands: Mapping[str, Array | None]
    attrs: Mapping[str, Any] = field(default_factory=dict)
    known: Sequence[str] = ()
    outputs: int = 1
    opset: int = NEWEST_OPSET

    @property
    def record(self) -> Operator:
        return OPERATORS[self.op]

    @property
    def arrays(self) -> list[Array | None]:
        return list(self.operands.values())

    def call(self) -> Call:
        """Return the compiler's form of the call; GraphError for a refused one."""
        given = {name: array for name, array in self.operands.items() if array is not None}
        declared = zip(self.operands, self.record.inputs, strict=False)
        fixed = {name for name, item in declared if item.constant} | set(self.known)
        constants = {name: array for name, array in given.items() if name in fixed}
        names = tuple(name if name in given else "" for name in self.operands)
        description = Description("case", "case", self.opset, (), (), constants, ())
        tensors = {name: Tensor(name, array.dtype.name, array.shape) for name, array in given.items()}
        outputs = tuple(f"result{at}" for at in range(self.outputs))
        node = infer_node(description, Node(self.op, "n", names, outputs, dict(self.attrs)), tensors)
        return resolve(node, self.opset, tensors, constants, len(self.record.inputs))

    def by_reference(self) -> Compute:
        """The reference of the record."""
        call = self.call()

        def compute(arrays: Sequence[Array | None]) -> Sequence[Array]:
            with np.errstate(all="ignore"):
                wide = [None if array is None else widened(array) for array in arrays]
                return [np.asarray(array) for array in self.record.reference(call, *wide)]

        return compute


Drawn = Callable[[Random], PartCase]
"""Draws a random call."""


def some_shape(rng: Random, lowest: int = 1, highest: int = 4) -> list[int]:
    """Of ``lowest`` to ``highest`` axes."""
    return small(rng, 1, 6, small(rng, lowest, highest, 1)[0])


def broadcasting(rng: Random, count: int, shape: list[int]) -> list[list[int]]:
    """A shape, and others that broadcast to it."""
    found = []
    for _ in range(count):
        cut = small(rng, 0, len(shape), 1)[0]
        found.append([1 if rng.random() < 0.3 else size for size in shape][cut:])
    return [shape, *found]


def some_box(rng: Random, shape: tuple[int, ...]) -> Box:
    """A box with elements; every fourth axis is whole."""
    intervals = []
    for size in shape:
        begin = int(rng.integers(0, size))
        end = int(rng.integers(begin + 1, size + 1))
        intervals.append((0, size) if rng.random() < 0.25 else (begin, end))
    return Box(tuple(intervals))


def replaced_outside(rng: Random, array: Array, box: Box | None, with_nan: bool) -> Array:
    """The array with other elements outside of a box: NaN, any numbers, or any bytes.

    Wider integers may be indices, also of several axes next to each other; those in a column change places.
    """
    if array.dtype.kind == "f" or array.dtype.name == "bfloat16":
        other = np.full(array.shape, np.nan) if with_nan else rng.standard_normal(array.shape) * 3
    elif array.dtype.kind == "b":
        other = ~array
    elif array.dtype.itemsize == 1:
        limits = np.iinfo(array.dtype)
        other = rng.integers(limits.min, limits.max + 1, array.shape)
    else:
        other = rng.permuted(array, axis=0) if array.ndim else array
    made = np.array(other, array.dtype)
    if box is not None:
        made[box.slices] = array[box.slices]
    return made


def bits(array: Array) -> bytes:
    """The bytes of an array in which every NaN is the same."""
    if array.dtype.kind != "f":
        return np.ascontiguousarray(array).tobytes()
    return np.ascontiguousarray(np.where(np.isnan(array), np.nan, array)).tobytes()


def changed_part(
    case: PartCase, compute: Compute, rng: Random, *, with_nan: bool, number: int = 0
) -> str | None:
    """Return None if a random box of a result needs no more than the record says; else the mistake."""
    call, arrays = case.call(), case.arrays
    before = compute(arrays)[number]
    if not before.size:
        return None
    wanted = some_box(rng, before.shape)
    boxes = case.record.needed(call, [None] * number + [wanted])
    fixed = [value is not None for value in call.values]
    problem = box_problem(call, boxes)
    if problem is not None:
        return problem
    other = [
        array if array is None or known else replaced_outside(rng, array, box, with_nan)
        for array, box, known in zip(arrays, boxes, fixed, strict=False)
    ]
    after = compute(other)[number]
    if bits(before[wanted.slices]) == bits(after[wanted.slices]):
        return None
    return f"{wanted} of {list(before.shape)} needs more than {', '.join(map(str, boxes))}"


def box_problem(call: Call, boxes: Sequence[Box | None]) -> str | None:
    """Return the mistake in boxes of operands, which must have elements and be inside of their operands."""
    if len(boxes) != len(call.inputs):
        return f"{len(boxes)} boxes for {len(call.inputs)} operands"
    for tensor, box in zip(call.inputs, boxes, strict=True):
        if box is None:
            continue
        if tensor is None or not box.size or box.within(tensor.shape) != box:
            return f"{box} of operand {tensor}"
    return None
