"""Chains: pointwise operators computed together; each slice is loaded once and stored once.

The elements of the result are cut into slabs; every slab goes through all operators of the chain in the
scratchpad. A single operator is a chain of one. The code of a chain is in chain_code.py.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from compiler.codegen.slices.tensors import DdrTensor
from compiler.codegen.slices.vector import WIDE
from compiler.graph import FLOATS
from compiler.lowering.record import ChainNode
from compiler.operators.elements.casting import cast_dtype
from compiler.operators.record import Call
from tx8isa.numbers.formats import Format

from .record import POINTWISE, known_number

FLOATS_AND_BOOL = (*FLOATS, "bool")

LOADED_INTEGERS = ("int8", "uint8", "int32")
"""Integer types that the vector engine converts to FP32."""

_CONSECUTIVE = 1 << 24
"""All integers of a smaller magnitude are FP32 numbers, and rounding keeps smaller ones smaller."""

CASTS = ("Cast", "tx8be.cast")
"""Operations that change the format; to BOOL the result is 1 for every number but 0."""


@dataclass(frozen=True)
class Chain:
    """Pointwise operators of one shape, to which the inputs broadcast; the last node gives the result."""

    inputs: tuple[DdrTensor, ...]
    nodes: tuple[ChainNode, ...]
    output: DdrTensor

    def computed_in(self, at: int, formats: dict[int, Format]) -> Format:
        """The format in which node ``at`` is computed, given the ``formats`` of its operands."""
        node = self.nodes[at]
        if node.op in CASTS:
            return spm_format(node.fmt)
        fp32 = Format.FP32 in (formats[value] for value in node.values)
        return Format.FP32 if POINTWISE[node.op].wide or fp32 else spm_format(node.fmt)


def spm_format(fmt: Format) -> Format:
    """The format of a value in the scratchpad: FP32 for truth values and integers."""
    return fmt if fmt.is_float else Format.FP32


def chainable(op: str, call: Call | None) -> bool:
    """True if an operator can be a node of a chain, as far as its shapes allow it."""
    if (op not in POINTWISE and op not in CASTS) or (op in POINTWISE and POINTWISE[op].alone):
        return False
    if call is None:
        return True
    if op == "Cast":
        return casts_in_chain(call)
    if POINTWISE[op].of_bytes or (POINTWISE[op].compares and compared_as_floats(call)):
        return True
    return all(t is None or t.dtype in FLOATS_AND_BOOL for t in call.inputs)


def casts_in_chain(call: Call) -> bool:
    """True if a Cast can be a node: between floats and truth values, and from integers to floats."""
    before, after = call.tensor(0).dtype, cast_dtype(call)
    if before in LOADED_INTEGERS:
        return after in FLOATS
    return before in FLOATS_AND_BOOL and after in FLOATS_AND_BOOL


def compared_as_floats(call: Call) -> bool:
    """True if integers can be compared in FP32: bytes, and comparisons with constants that FP32 represents
    exactly."""
    dtypes = [tensor.dtype for tensor in call.inputs if tensor is not None]
    if any(dtype not in LOADED_INTEGERS for dtype in dtypes):
        return False
    return "int32" not in dtypes or any(
        value is not None and bool(np.all(np.abs(value.astype(np.int64)) < _CONSECUTIVE))
        for value in call.values
    )


def bytes_each(chain: Chain) -> int:
    """Scratchpad bytes that a chain needs for each element of its result."""
    base = len(chain.inputs)
    formats = {at: input_format(tensor) for at, tensor in enumerate(chain.inputs)}
    sizes = {at: _input_bytes(tensor) for at, tensor in enumerate(chain.inputs)}
    first_use = {base + at: at for at in range(len(chain.nodes))}
    last_use = dict(first_use)
    for at, node in enumerate(chain.nodes):
        for value in node.values:
            first_use.setdefault(value, at)
            last_use[value] = at
    largest = 0
    for at, node in enumerate(chain.nodes):
        fmt = formats[base + at] = chain.computed_in(at, formats)
        sizes[base + at] = fmt.bits // 8
        for value in node.values:
            if formats[value] not in WIDE and fmt is Format.FP32 and sizes[value]:
                sizes[value] = formats[value].bits // 8 + 4
        alive = sum(
            size for value, size in sizes.items() if first_use.get(value, at + 1) <= at <= last_use[value]
        )
        entry = POINTWISE.get(node.op)
        buffers = 1 + (entry.temporaries if entry else 0)
        largest = max(largest, alive + buffers * fmt.bits // 8)
    return largest


def input_format(tensor: DdrTensor) -> Format:
    """The format of an input in the scratchpad; INT8 for a constant number, which has no format."""
    return Format.INT8 if known_number(tensor) is not None else spm_format(tensor.fmt)


def _input_bytes(tensor: DdrTensor) -> int:
    if known_number(tensor) is not None:
        return 0
    return tensor.bytes_each if tensor.fmt.is_float else tensor.bytes_each + 4
