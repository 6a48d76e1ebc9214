"""Lists the primitives: functions with a version of their own in machine code.

All other functions that a kernel calls are plain Python, which is compiled with it. The names are known
without Numba, so that a cached kernel is found and loaded without importing it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tx8isa.numbers import primitives

from . import float32, memory
from .blocks import BLOCKS, block_name
from .flags import pack_flags, spread_flags
from .int8 import (
    BYTES,
    HALVES,
    bytes_name,
    halves_name,
    interleave_bytes,
    interleave_halves,
    requantise,
    requantise_row,
)
from .products import (
    PRODUCTS,
    bring_near,
    product_name,
    product_row_fp16,
    taps_f32,
    taps_i32,
    transpose_16x16,
    transpose_16x16_bf16,
    transpose_16x16_fp16,
    transpose_16x16_halves,
)
from .threads import atomic_add, atomic_load, relax

SCALAR = (
    *("u64", "s64", "u32", "s32", "mulh", "mulhu", "mulhsu"),
    *("bits64", "from_bits64", "sqrt", "divide", "fma32", "fma64", "f32"),
    *("add32", "mul32", "bits32", "from_bits32"),
)
FLOAT32 = (
    *("bits_f32", "f32_bits", "single", "fp16_to_f32", "bf16_to_f32", "tf32_to_f32"),
    *("f32_to_fp16", "f32_to_bf16", "f32_to_tf32", "f32_to_fp32"),
)
MEMORY = (
    *("view_u8", "view_u16", "view_u32", "view_u64", "view_i64", "view_f32", "view_f64"),
    *("get", "put", "copy_bytes", "call_kernel", "call_loop"),
)

PRIMITIVES: dict[Callable[..., Any], str] = {
    transpose_16x16: "transpose_16x16",
    transpose_16x16_fp16: "transpose_16x16_fp16",
    transpose_16x16_bf16: "transpose_16x16_bf16",
    transpose_16x16_halves: "transpose_16x16_halves",
    bring_near: "bring_near",
    pack_flags: "pack_flags",
    spread_flags: "spread_flags",
    **{block: block_name(size) for size, block in BLOCKS.items()},
    **{product: product_name(*shape) for shape, product in PRODUCTS.items()},
    **{product: bytes_name(*shape) for shape, product in BYTES.items()},
    **{product: halves_name(*shape) for shape, product in HALVES.items()},
    product_row_fp16: "product_row_fp16",
    taps_f32: "taps_f32",
    taps_i32: "taps_i32",
    interleave_bytes: "interleave_bytes",
    interleave_halves: "interleave_halves",
    requantise: "requantise",
    requantise_row: "requantise_row",
    atomic_add: "atomic_add",
    atomic_load: "atomic_load",
    relax: "relax",
    **{getattr(primitives, name): name for name in SCALAR},
    **{getattr(float32, name): name for name in FLOAT32},
    **{getattr(memory, name): name for name in MEMORY},
}
"""The name in ``emulator.native.machine.MACHINE`` of each plain function's machine version."""
