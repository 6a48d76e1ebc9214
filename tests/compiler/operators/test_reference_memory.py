"""The memory of a reference while it computes, against its record's claim for the budget of constants."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from compiler.graph import AttrValue, Node, Shape, Tensor
from compiler.operators import OPERATORS
from compiler.operators.record import resolve

CALLS: dict[str, tuple[list[Shape], dict[str, AttrValue]]] = {
    "Det": ([(2000, 16, 16)], {}),
    "LpNormalization": ([(400, 400)], {"axis": 0, "p": 2}),
    "Einsum": ([(40,), (40,), (40,)], {"equation": "i,j,k->ijk"}),
    "ReduceProd": ([(64, 1000)], {}),
}


@pytest.mark.parametrize("op", CALLS)
def test_an_expansion_holds_what_its_record_says(op: str) -> None:
    """NumPy may hold one more array of the largest size in the middle of a computation."""
    shapes, attrs = CALLS[op]
    record, names = OPERATORS[op], [f"i{at}" for at in range(len(shapes))]
    tensors = {name: Tensor(name, "float32", shape) for name, shape in zip(names, shapes, strict=True)}
    given = {item.name: item.default for item in record.attributes if item.default is not None}
    node = Node(op, "y", tuple(names), ("y",), {**given, **attrs})
    call = resolve(node, 21, tensors, {}, len(record.inputs))
    arrays = [np.ones(shape) for shape in shapes]
    record.reference(call, *arrays)
    tracemalloc.start()
    try:
        record.reference(call, *arrays)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    results = sum(tensor.size for tensor in record.infer(call))
    largest = max(results, *(array.size for array in arrays))
    assert peak <= 8 * (record.scratch(call).held + results + largest) + 16384
    assert record.scratch(call).held <= 8 * (largest + results)  # no array is kept after its last node
