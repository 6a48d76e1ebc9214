"""Cast and BitCast: floats by the vector engine, integers by the kernel core."""

from __future__ import annotations

from dataclasses import replace

from compiler.codegen.kernel import Kernel
from compiler.codegen.slices.scalar import ScalarCode
from compiler.codegen.slices.tensors import DdrTensor, View, copy_views
from compiler.dialect.orders import Order
from compiler.dialect.types import DTYPE_FORMATS
from compiler.graph import FLOATS
from compiler.lowering.movement.movement import convert_tensor
from compiler.lowering.record import EVERY_TYPE, Engine, Work, lowering
from compiler.operators.elements.casting import cast_dtype
from compiler.operators.record import Call
from tx8isa.numbers.formats import Format

from .chain import casts_in_chain
from .integers import compute_elements
from .single import lower_single


def _between_integers(call: Call) -> bool:
    """from int64, to integers, and from truth values to integers"""
    before, after = call.tensor(0).dtype, cast_dtype(call)
    if before in FLOATS:
        return after not in (*FLOATS, "bool")
    return after != before and not casts_in_chain(call)


@lowering("Cast", order=Order.FOLLOW, types=EVERY_TYPE, engines=(Engine.VECTOR,), on_core=_between_integers)
def cast(kernel: Kernel, work: Work) -> None:
    """Casts between floats and integers convert through FP32."""
    source, target = work.input(0), work.output
    before, after = work.spec.tensor(0).dtype, cast_dtype(work.spec)
    if before == after or (source.fmt.is_float and target.fmt.is_float):
        convert_tensor(kernel, source, target)
    elif after == "bool":
        _cast_to_bool(kernel, source, target)
    elif source.fmt.is_float:
        single = source if source.fmt in (Format.FP32, Format.TF32) else fp32_scratch(kernel, source)
        if single is not source:
            convert_tensor(kernel, source, single)
            kernel.synchronize()
        compute_elements(kernel, [single], target, _to_integer)
    elif casts_in_chain(work.spec):
        lower_single(kernel, work)
    elif target.fmt.is_float:
        single = target if target.fmt is Format.FP32 else fp32_scratch(kernel, target)
        compute_elements(kernel, [source], single, _to_float)
        if single is not target:
            kernel.synchronize()
            convert_tensor(kernel, single, target)
    else:
        compute_elements(kernel, [source], target, lambda core, values: values[0])


@lowering("BitCast", order=Order.FOLLOW, types=EVERY_TYPE, engines=(Engine.DMA,))
def bit_cast(kernel: Kernel, work: Work) -> None:
    """Copy the bytes; floats are converted to the format of their type first."""
    source, target = work.input(0), work.output
    before = DTYPE_FORMATS[work.spec.tensor(0).dtype]
    after = DTYPE_FORMATS[cast_dtype(work.spec)]
    bits = source if source.fmt is before else _scratch(kernel, "bits", source, before)
    if bits is not source:
        convert_tensor(kernel, source, bits)
        kernel.synchronize()
    result = target if target.fmt is after else _scratch(kernel, "bits", target, after)
    shared = replace(bits, fmt=after)
    copy_views(kernel, (target.size,), View(shared, (1,)), View(result, (1,)))
    if result is not target:
        kernel.synchronize()
        convert_tensor(kernel, result, target)


def _scratch(kernel: Kernel, name: str, like: DdrTensor, fmt: Format) -> DdrTensor:
    """A scratch tensor in DDR of the same shape as another."""
    symbol = kernel.scratch(name, like.size * fmt.bits // 8).symbol
    return DdrTensor(symbol, fmt, like.shape)


def fp32_scratch(kernel: Kernel, like: DdrTensor) -> DdrTensor:
    """An FP32 scratch tensor in DDR of the same shape as another."""
    return _scratch(kernel, "single", like, Format.FP32)


def _cast_to_bool(kernel: Kernel, source: DdrTensor, target: DdrTensor) -> None:
    if source.fmt.is_float:
        lower_single(kernel, Work("", "Cast", (source,), target))
        return

    def code(core: ScalarCode, values: list[str]) -> str:
        core.emit("snez", values[0], values[0])
        return values[0]

    compute_elements(kernel, [source], target, code)


def _to_integer(core: ScalarCode, values: list[str]) -> str:
    """Rounded toward zero, as ONNX defines; values out of range wrap, as in NumPy."""
    core.emit("fmv.w.x", "ft0", values[0])
    core.emit("fcvt.l.s", values[0], "ft0", "rtz")
    return values[0]


def _to_float(core: ScalarCode, values: list[str]) -> str:
    core.emit("fcvt.s.l", "ft0", values[0])
    core.emit("fmv.x.w", values[0], "ft0")
    return values[0]
