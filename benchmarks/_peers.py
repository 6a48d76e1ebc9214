"""Let NumPy do the work of an instruction, where NumPy has a function for it.

``peer`` gives a call without arguments that reads the same bytes as the row's instruction. Fill the operands
first, because some are unpacked when the call is made. Results go to existing arrays if the function takes
``out``. The peer of the matrix engine is OpenBLAS on prepared FP32 matrices.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from _operands import ROW_BYTES, Case
from tx8isa.numbers.formats import Format
from tx8isa.table.encoding import unpack_lanes

Array = np.ndarray[Any, Any]
Peer = Callable[[], object]
Memory = Callable[[str, Any], Array]
"""(operand, dtype) -> the bytes that the case accesses through this operand."""

DTYPES = {
    Format.INT8: np.int8,
    Format.INT16: np.int16,
    Format.INT32: np.int32,
    Format.FP16: np.float16,
    Format.FP32: np.float32,
    Format.TF32: np.float32,
}
"""NumPy has no BF16; TF32 is compared as FP32."""

_UNARY: dict[str, Callable[..., Any]] = {
    "abs": np.abs,
    "recip": np.reciprocal,
    "square": np.square,
    "sqrt": np.sqrt,
    "neg": np.negative,
    "log2": np.log2,
    "ln": np.log,
    "pow2": np.exp2,
    "exp": np.exp,
    "sin": np.sin,
    "cos": np.cos,
    "tanh": np.tanh,
    "relu": lambda x, out: np.maximum(x, x.dtype.type(0), out=out),
    "satrelu": lambda x, out: np.clip(x, x.dtype.type(0), x.dtype.type(6), out=out),
    "leakyrelu": lambda x, out: np.maximum(x, x * x.dtype.type(0.01), out=out),
    "sigmoid": lambda x, out: np.reciprocal(np.exp(-x) + x.dtype.type(1), out=out),
    "softplus": lambda x, out: np.logaddexp(x, x.dtype.type(0), out=out),
}
_BINARY: dict[str, Callable[..., Any]] = {
    "max": np.fmax,
    "min": np.fmin,
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "eq": np.equal,
    "ne": np.not_equal,
    "ge": np.greater_equal,
    "gt": np.greater,
    "le": np.less_equal,
    "lt": np.less,
    "and": np.logical_and,
    "or": np.logical_or,
    "xor": np.logical_xor,
}
_ARITHMETIC = ("max", "min", "add", "sub", "mul", "div")
_BITWISE: dict[str, Callable[..., Any]] = {
    "not": np.bitwise_not,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}
_FOLDS: dict[str, Callable[..., Any]] = {
    "sum": np.add.reduce,
    "avg": np.mean,
    "max": np.fmax.reduce,
    "min": np.fmin.reduce,
}
_TURNS: dict[str, Callable[[Array], Array]] = {
    "mirror": lambda x: x[:, :, ::-1],
    "transpose": lambda x: x.swapaxes(1, 2),
    "rotate90": lambda x: np.rot90(x, -1, (1, 2)),
    "rotate180": lambda x: np.rot90(x, 2, (1, 2)),
    "rotate270": lambda x: np.rot90(x, 1, (1, 2)),
    "nhwc2nchw": lambda x: x.transpose(0, 3, 1, 2),
}


def peer(case: Case, memory: Memory) -> Peer | None:
    """A call of NumPy that does the row's work, or None."""
    unit, _, rest = case.instruction.mnemonic.partition(".")
    name, _, form = rest.partition(".")
    if unit in ("rdma", "wdma"):
        return _copy(case, memory("src", np.uint8), memory("dst", np.uint8))
    if unit == "ne":
        return _matrix(case) if name == "gemm" and case.format is not Format.INT8 else None
    if name == "cvt":
        return _convert(form, memory)
    if "bv.bv" in rest:
        return _bits(name, form, memory)
    if case.instruction.mnemonic in _SINGLE:
        return _SINGLE[case.instruction.mnemonic](case, memory)
    dtype = DTYPES.get(case.format) if case.format is not None else None
    if dtype is None:
        return None
    if unit == "ct" and form == "v" and name in _UNARY:
        function, x = _UNARY[name], memory("src0", dtype)
        out = np.empty_like(x)
        return lambda: function(x, out=out)
    if name == "reduce":
        return _reduce(case, _FOLDS[form], memory("src0", dtype))
    if name in _TURNS:
        return _turn(case, _TURNS[name], memory("src0", dtype))
    if name in _BINARY:
        return _binary(case, name, memory("src0", dtype), memory)
    return None


def _binary(case: Case, name: str, x: Array, memory: Memory) -> Peer:
    """A binary function in one of its forms; relations give booleans, which the bit forms pack."""
    function, form = _BINARY[name], case.instruction.mnemonic.rpartition(".")[2]
    y: Any
    if form == "vs":
        y = np.array(case.value("src1"), np.uint32).astype(f"u{x.itemsize}").view(x.dtype)[()]
    else:
        y = memory("src1", x.dtype)
    if form == "vuv":
        x, y = x.reshape(-1, 64), y[:64]
    elif form == "vuv_loop":
        x, y = x.reshape(8, -1, 64), y.reshape(8, 1, 64)
    out = np.empty(x.shape, x.dtype if name in _ARITHMETIC else bool)
    if ".bv." in case.instruction.mnemonic:
        return lambda: np.packbits(function(x, y, out=out), bitorder="little")
    return lambda: function(x, y, out=out)


def _bits(name: str, form: str, memory: Memory) -> Peer:
    function, x = _BITWISE[name], memory("src0", np.uint64)
    out = np.empty_like(x)
    if name == "not":
        return lambda: function(x, out=out)
    y = memory("src1", np.uint64)
    if form.endswith("_loop"):
        groups, target = x.reshape(8, -1), out.reshape(8, -1)
        return lambda: function(groups, y.reshape(8, 1), out=target)
    return lambda: function(x, y, out=out)


def _convert(form: str, memory: Memory) -> Peer | None:
    """A conversion by NumPy, which has no rounding modes and no saturation."""
    source, target = (DTYPES.get(Format.parse(token)) for token in form.split("."))
    if source is None or target is None or source is target:
        return None
    x = memory("src0", source)
    out = np.empty(x.shape, target)
    return lambda: np.copyto(out, x, casting="unsafe")


def _lanes(case: Case, operand: str) -> tuple[int, ...]:
    return unpack_lanes(case.instruction.operand(operand), case.value(operand))


def _reduce(case: Case, fold: Callable[..., Any], x: Array) -> Peer:
    image = x.reshape(_lanes(case, "shape"))
    axis = 3 if case.note.endswith(" c") else (1, 2)
    wide = {"dtype": np.float32} if fold in (np.add.reduce, np.mean) else {}
    return lambda: fold(image, axis=axis, **wide)


def _turn(case: Case, turn: Callable[[Array], Array], x: Array) -> Peer:
    turned = turn(x.reshape(_lanes(case, "shape")))
    out = np.empty(turned.shape, x.dtype)
    return lambda: np.copyto(out, turned)


def _copy(case: Case, source: Array, target: Array) -> Peer:
    """A copy of contiguous bytes, or with every other row on the strided side."""
    wide, narrow = (source, target) if source.size > target.size else (target, source)
    if wide.size != narrow.size:
        rows = narrow.size // ROW_BYTES
        wide = np.lib.stride_tricks.as_strided(wide, (rows, ROW_BYTES), (2 * ROW_BYTES, 1))
        narrow = narrow.reshape(rows, ROW_BYTES)
        source, target = (wide, narrow) if source.size > target.size else (narrow, wide)
    return lambda: np.copyto(target, source)


def _matrix(case: Case) -> Peer:
    m, k, n = (case.value(name) for name in "mkn")
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(shape).astype(np.float32) for shape in ((m, k), (k, n)))
    out = np.empty((m, n), np.float32)
    return lambda: np.matmul(a, b, out=out)


# --- single instructions --------------------------------------------------------------------


def _dtype(case: Case) -> Any:
    return DTYPES[case.format] if case.format is not None else np.uint8


def _nest(case: Case, memory: Memory) -> Peer:
    source, target = memory("src0", np.uint8), memory("dst", np.uint8)
    if case.note.startswith("pieces"):
        words, spread = source.view(np.uint16), np.zeros(2 * case.elements, np.uint16)[::2]
        return lambda: np.copyto(spread, words)
    return _copy(case, source, target)


def _factorize(case: Case, memory: Memory) -> Peer:
    x = memory("src0", np.float32)
    return lambda: np.frexp(x)


def _take(dtype: Any, scale: int) -> Callable[[Case, Memory], Peer]:
    def make(case: Case, memory: Memory) -> Peer:
        own = dtype or {16: np.uint16, 32: np.uint32}[case.format.bits if case.format else 0]
        table, indices = memory("src0", own), memory("src1", own) // scale
        return lambda: table[indices]

    return make


def _compress(case: Case, memory: Memory) -> Peer:
    x, bits = memory("src0", _dtype(case)), memory("src1", np.uint8)
    return lambda: x[np.unpackbits(bits, bitorder="little").view(bool)]


def _masked(case: Case, memory: Memory) -> Peer:
    x, mask, out = memory("src0", _dtype(case)), memory("src1", _dtype(case)), memory("dst", _dtype(case))
    return lambda: np.copyto(out, x, where=mask != 0)


def _unpack(case: Case, memory: Memory) -> Peer:
    bits = memory("src0", np.uint8)
    return lambda: np.unpackbits(bits, bitorder="little").astype(_dtype(case))


def _over(function: Callable[[Array], object], dtype: Any = None) -> Callable[[Case, Memory], Peer]:
    def make(case: Case, memory: Memory) -> Peer:
        x = memory("src0", dtype or _dtype(case))
        return lambda: function(x)

    return make


def _fill(case: Case, memory: Memory) -> Peer:
    out, value = memory("dst", _dtype(case)), _dtype(case)(1)
    return lambda: out.fill(value)


def _pad(case: Case, memory: Memory) -> Peer:
    image = memory("src0", _dtype(case)).reshape(_lanes(case, "shape"))
    return lambda: np.pad(image, ((0, 0), (1, 1), (1, 1), (0, 0)))


def _join(case: Case, memory: Memory) -> Peer:
    shape = _lanes(case, "shape")
    a, b = (memory(name, _dtype(case)).reshape(shape) for name in ("src0", "src1"))
    out = np.empty(_lanes(case, "dst_shape"), a.dtype)
    return lambda: np.concatenate((a, b), axis=3, out=out)


def _channels_last(case: Case, memory: Memory) -> Peer:
    n, h, w, c = _lanes(case, "dst_shape")
    image = memory("src0", _dtype(case)).reshape(n, c, h, w).transpose(0, 2, 3, 1)
    out = np.empty(image.shape, image.dtype)
    return lambda: np.copyto(out, image)


def _random(case: Case, memory: Memory) -> Peer | None:
    if case.format is not Format.FP32:
        return None
    generator, out = np.random.default_rng(0), np.empty(case.elements, np.float32)
    return lambda: generator.random(dtype=np.float32, out=out)


_SINGLE: dict[str, Callable[[Case, Memory], Peer | None]] = {
    "td.gatherscatter": _nest,
    "ct.factorize": _factorize,
    "ct.maskgather.v": _take(None, 1),
    "ct.lut16": _take(np.uint16, 2),
    "ct.lut32": _take(np.uint32, 4),
    "ct.maskgather.bv": _compress,
    "ct.maskmove": _masked,
    "ct.bit2fp": _unpack,
    "ct.count": _over(np.count_nonzero),
    "ct.argmax": _over(np.argmax),
    "ct.argmin": _over(np.argmin),
    "ct.bitcount": _over(lambda x: np.bitwise_count(x).sum(), np.uint64),
    "td.memset": _fill,
    "td.pad": _pad,
    "ct.concat": _join,
    "td.nchw2nhwc": _channels_last,
    "ct.randgen": _random,
}
