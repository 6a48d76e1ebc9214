"""MatMulNBits: products with known weights of 2, 4 or 8 bits, with a scale for each block of them."""

from __future__ import annotations

import numpy as np

from compiler.graph import Array, Shape
from compiler.operators.expansion.builder import Builder
from compiler.operators.expansion.composite import composite
from compiler.operators.record import Attribute, Call, Input, Output, Types, rule
from compiler.operators.types import FLOAT

_PACKED = Types("T2", ("uint8",))
_ZERO_POINTS = Types("T3", ("uint8", *FLOAT.allowed))


def unpacked(packed: Array, bits: int) -> Array:
    """Unpack numbers of ``bits`` bits along the last axis, the lowest bits of each byte first."""
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    numbers = (packed[..., None] >> shifts) & np.uint8((1 << bits) - 1)
    return np.asarray(numbers.reshape(*packed.shape[:-1], -1))


def _blocks(call: Call) -> int:
    """Return the number of blocks in a column of the weights."""
    return -(-call.integer("K") // call.integer("block_size"))


@rule
def size_of_blocks(call: Call) -> str | None:
    """block_size must be a power of two, 16 or more"""
    size = call.integer("block_size")
    return None if size >= 16 and size & (size - 1) == 0 else f"block_size {size}"


@rule
def weights_are_packed(call: Call) -> str | None:
    """B must be [N, blocks, bytes of a block] with ceil(K / block_size) blocks, scales [N, blocks]"""
    rows, blocks = call.integer("N"), _blocks(call)
    wanted = (rows, blocks, call.integer("block_size") * call.integer("bits") // 8)
    if call.shape(1) == wanted and call.tensor(2).size == rows * blocks:
        return None
    return f"{list(call.shape(1))} and {list(call.shape(2))}; expected {list(wanted)} and {[rows, blocks]}"


@rule
def features_are_last(call: Call) -> str | None:
    """The last axis of A must have K elements"""
    found = call.shape(0)
    return None if found and found[-1] == call.integer("K") else f"{list(found)} with K = {call.integer('K')}"


@rule
def zero_points_fit(call: Call) -> str | None:
    """zero_points must be packed like B, or floats, for each of the N columns one for each block"""
    if not call.has(3):
        return None
    rows, blocks, tensor = call.integer("N"), _blocks(call), call.tensor(3)
    size = blocks if tensor.is_float else -(-blocks * call.integer("bits") // 8)
    return None if tensor.size == rows * size else f"{tensor.dtype} {list(tensor.shape)}"


@rule
def no_order_of_groups(call: Call) -> str | None:
    """g_idx is not supported; onnxruntime has deprecated it"""
    return f"g_idx '{call.name(4)}'" if call.has(4) else None


def _zero_points(call: Call) -> Array:
    """Return the zero point of each block, [N, blocks]."""
    rows, blocks, bits = call.integer("N"), _blocks(call), call.integer("bits")
    given = call.values[3]
    if given is None:
        return np.full((rows, blocks), 1 << (bits - 1), np.uint8)
    if call.tensor(3).is_float:
        return given.reshape(rows, blocks)
    return unpacked(given.reshape(rows, -1), bits)[:, :blocks]


def _weights(build: Builder, call: Call) -> str:
    """Return the weights [K, N] as floats: blocks of a column are along the first axis."""
    rows, inner, size = call.integer("N"), call.integer("K"), call.integer("block_size")
    given, scales = call.values[1], call.values[2]
    if given is None or scales is None:
        raise ValueError("constants, as the record says")
    numbers = unpacked(given, call.integer("bits")).reshape(rows, -1)[:, :inner].T
    zeros, factors = _zero_points(call).T, scales.reshape(rows, -1).T
    dtype = call.tensor(0).dtype
    if (zeros == np.rint(zeros)).all() and zeros.min(initial=0) >= 0 and zeros.max(initial=0) <= 255:
        stored, points = build.constant(numbers, "uint8"), build.constant(zeros, "uint8")
        scale = build.constant(factors, dtype)
        return build.kept("DequantizeLinear", stored, scale, points, axis=0, block_size=size)
    spread = (np.repeat(item.astype(np.float64), size, axis=0)[:inner] for item in (zeros, factors))
    zero, factor = spread
    return build.constant((numbers - zero) * factor, dtype)


def _matmul(build: Builder, call: Call) -> tuple[str, ...]:
    product = build("MatMul", call.name(0), _weights(build, call))
    return (build("Add", product, call.name(5)) if call.has(5) else product,)


def _result(call: Call) -> tuple[str, Shape]:
    return call.tensor(0).dtype, (*call.shape(0)[:-1], call.integer("N"))


composite(
    name="com.microsoft.MatMulNBits",
    since=1,
    summary="Matrix product with weights of few bits, with a scale for each block of them, plus bias",
    inputs=(
        Input("A", FLOAT),
        Input("B", _PACKED, constant=True),
        Input("scales", FLOAT, constant=True),
        Input("zero_points", _ZERO_POINTS, optional=True, constant=True),
        Input("g_idx", Types("T4", ("int32",)), optional=True),
        Input("bias", FLOAT, optional=True),
    ),
    outputs=(Output("Y", FLOAT),),
    expansion=_matmul,
    attributes=(
        Attribute("K", "int", required=True, minimum=1),
        Attribute("N", "int", required=True, minimum=1),
        Attribute("accuracy_level", "int", 0, allowed=(0, 1, 2, 3, 4)),
        Attribute("bits", "int", 4, allowed=(2, 4, 8)),
        Attribute("block_size", "int", required=True),
        Attribute("weight_prepacked", "int", 0, allowed=(0,)),
    ),
    rules=(size_of_blocks, features_are_last, weights_are_packed, zero_points_fit, no_order_of_groups),
    result=_result,
)
