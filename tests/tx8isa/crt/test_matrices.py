"""The tables of the matrix engine and of loads and stores, called from C, against NumPy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from c_tools import needs_gcc
from crt_calls import DTYPES, SRC0, SRC1, Array, Call, aligned, check_calls, lanes, rounded
from crt_tools import ran
from emulator import Fault
from tx8isa.c.tsm.tables import tables

Steps = list[tuple[str, Sequence[object]]]
PSUM, BIAS, SCALE_P, SCALE_N = 0x20000, 0x28000, 0x2A000, 0x2B000
FORMATS = tuple((fmt, out) for fmt in ("FP16", "BF16", "TF32") for out in (fmt, "FP32"))
"""Formats of the inputs and of the result of a product or convolution in floats."""


def whole(shape: tuple[int, ...], seed: int, size: int = 3) -> Array:
    return np.random.default_rng(seed).integers(-size, size + 1, shape).astype(np.float64)


def matrix(fmt: str, values: Array) -> bytes:
    """A batch of matrices in the engine's layout."""
    return aligned(fmt, values[:, :, None, :])


def call(steps: Steps, inputs: Sequence[tuple[int, bytes]], expected: bytes) -> Call:
    return Call(*steps[0], inputs, expected, more=tuple(steps[1:]))


def product(fmt: str, out: str, m: int, k: int, n: int, lb: int = 1, rb: int = 1) -> Steps:
    """The settings of every product, except its flags."""
    return [
        ("TsmGemm.AddInput", [SRC0, SRC1, f"Fmt_{fmt}"]),
        ("TsmGemm.ConfigMKN", [m, k, n]),
        ("TsmGemm.ConfigBatch", [lb, rb]),
        ("TsmGemm.AddOutput", ["@", f"Fmt_{out}"]),
    ]


def products() -> Iterator[Call]:
    """All flags of transposition; partial sums; batches with one repeated side."""
    m, k, n = 5, 70, 66
    for place, (fmt, out) in enumerate(FORMATS):
        left, right = place // 2 % 2, place % 2
        a, b = whole((2, m, k), 1, 1), whole((1, k, n), 2, 1)
        given = [(SRC0, matrix(fmt, a.swapaxes(1, 2) if left else a))]
        given.append((SRC1, matrix(fmt, b if right else b.swapaxes(1, 2))))
        total = a @ b
        steps = [*product(fmt, out, m, k, n, 2, 1), ("TsmGemm.SetTransflag", [left, right])]
        yield call(steps, given, matrix(out, rounded(out, total)))
        partial = whole(total.shape, 3)
        given.append((PSUM, matrix("FP32", partial)))
        steps.append(("TsmGemm.SetPsum", [1, PSUM, "Fmt_FP32"]))
        yield call(list(steps), given, matrix(out, rounded(out, total + partial)))
        steps[-1] = ("TsmGemm.SetPsum", [0, PSUM, "Fmt_FP32"])
        yield call(steps, given, matrix(out, rounded(out, total)))


def without_effect() -> Iterator[Call]:
    """Bias, scales and activation change nothing in float formats, as on the board."""
    a, b = whole((1, 5, 64), 4), whole((1, 64, 16), 5)
    given = [(SRC0, matrix("FP16", a)), (SRC1, matrix("FP16", b))]
    given += [(at, np.full(16, -3.0, "f4").tobytes()) for at in (BIAS, SCALE_P, SCALE_N)]
    base = [*product("FP16", "FP32", 5, 64, 16), ("TsmGemm.SetTransflag", [0, 1])]
    base.append(("TsmGemm.AddBias", [1, BIAS]))
    base.append(("TsmGemm.SetPositiveAxisScale", [1, SCALE_P]))
    base.append(("TsmGemm.SetNegativeAxisScale", [1, SCALE_N]))
    for name in ("EnableRelu", "EnableLeakyRelu", "DisableRelu", "DisableLeakyRelu"):
        yield call([*base, (f"TsmGemm.{name}", [])], given, matrix("FP32", a @ b))


def chain(total: Array, bias: Array, positive: Array, negative: Array, q1: int, q0: int) -> Array:
    """The INT8 chain (spec) with ReLU, up to the output's zero point."""
    o16 = np.clip(total + bias >> q1, -(1 << 15), (1 << 15) - 1)
    o9 = np.clip(o16 * np.where(o16 >= 0, positive, negative) >> q0, -256, 255)
    return np.maximum(o9, 0)


def integer_products() -> Iterator[Call]:
    """In INT8 bias, scales, zero points and activation take effect; with INT32 sums continue."""
    m, k, n = 5, 128, 20
    a, b = whole((1, m, k), 6, 90).astype(int), whole((1, k, n), 7, 90).astype(int)
    given = [(SRC0, matrix("INT8", a)), (SRC1, matrix("INT8", b))]
    flags = ("TsmGemm.SetTransflag", [0, 1])
    base = [*product("INT8", "INT32", m, k, n), flags]
    yield call(base, given, matrix("INT32", a @ b))
    partial = whole((1, m, n), 8, 1000).astype(int)
    steps = [*base, ("TsmGemm.SetPsum", [1, PSUM, "Fmt_INT32"])]
    yield call(steps, [*given, (PSUM, matrix("INT32", partial))], matrix("INT32", a @ b + partial))
    bias, positive, negative = (whole((n,), seed, 60).astype(int) for seed in (9, 10, 11))
    given += [(BIAS, bias.astype("i4").tobytes()), (SCALE_P, positive.astype("i2").tobytes())]
    given.append((SCALE_N, negative.astype("i2").tobytes()))
    steps = [*product("INT8", "INT8", m, k, n), flags, ("TsmGemm.SetQuant", [9, 5, 3, 2])]
    steps += [("TsmGemm.AddBias", [1, BIAS]), ("TsmGemm.EnableLeakyRelu", []), ("TsmGemm.EnableRelu", [])]
    steps += [("TsmGemm.SetNegativeAxisScale", [1, SCALE_N]), ("TsmGemm.SetPositiveAxisScale", [1, SCALE_P])]
    result = np.clip(chain((a - 3) @ (b - 2), bias, positive, negative, 5, 9), -128, 127)
    yield call(steps, given, matrix("INT8", result))


STRIDE, DILATION, PADS, CUT = (2, 1), (1, 2), (1, 2, 0, 1), (0, 1, 1, 0)
"""Stride x, y; dilation x, y; top, bottom, left, right added; the same cut off the result."""


def convolved(x: Array, w: Array, dilation: tuple[int, int] = DILATION) -> Array:
    """NHWC times [Ky, Kx, O, I], or times [Ky, Kx, C] channel by channel."""
    padded = np.pad(x, ((0, 0), PADS[:2], PADS[2:], (0, 0)))
    (sx, sy), (dx, dy), (ky, kx) = STRIDE, dilation, w.shape[:2]
    height = (padded.shape[1] - (ky - 1) * dy - 1) // sy + 1
    width = (padded.shape[2] - (kx - 1) * dx - 1) // sx + 1
    total = np.zeros((x.shape[0], height, width, w.shape[2]))
    for y in range(ky):
        for k in range(kx):
            part = padded[:, y * dy : y * dy + height * sy : sy, k * dx : k * dx + width * sx : sx]
            part = part[:, :height, :width]
            total += part @ w[y, k].T if w.ndim == 4 else part * w[y, k]
    return total[:, CUT[0] : height - CUT[1], CUT[2] : width - CUT[3]]


def convolution(table: str, fmt: str, x: Array, weights: tuple[int, ...], result: Array, out: str) -> Steps:
    """The settings of every convolution."""
    return [
        (f"{table}.AddInput", [SRC0, lanes(*x.shape), f"Fmt_{fmt}"]),
        (f"{table}.AddWeight", [SRC1, lanes(*weights), f"Fmt_{fmt}"]),
        (f"{table}.AddOutput", ["@", lanes(*result.shape), f"Fmt_{out}"]),
        (f"{table}.SetKernelStrides", [weights[1], weights[0], *STRIDE]),
        (f"{table}.SetPads", PADS),
        (f"{table}.SetUnPads", CUT),
    ]


def volume(fmt: str, weights: Array) -> bytes:
    """Weights in the engine's layout: one volume whose last axis is the channels."""
    return aligned(fmt, weights.reshape(1, 1, -1, weights.shape[-1]))


def convolutions() -> Iterator[Call]:
    x, w = whole((2, 6, 7, 10), 12), whole((3, 2, 12, 10), 13)
    for fmt, out in FORMATS:
        total = convolved(x, w)
        given = [(SRC0, aligned(fmt, x)), (SRC1, volume(fmt, w))]
        base = convolution("TsmConv", fmt, x, w.shape, total, out)
        steps = [*base, ("TsmConv.SetOpType", [0]), ("TsmConv.SetDilations", DILATION)]
        yield call(list(steps), given, aligned(out, rounded(out, total)))
        partial = whole(total.shape, 14)
        steps.append(("TsmConv.SetPsum", [1, PSUM, "Fmt_FP32"]))
        given = [*given, (PSUM, aligned("FP32", partial))]
        given += [(at, np.full(12, -3.0, "f4").tobytes()) for at in (BIAS, SCALE_P, SCALE_N)]
        steps += [(f"TsmConv.Set{side}AxisScale", [1, SCALE_P]) for side in ("Positive", "Negative")]
        steps += [("TsmConv.AddBias", [1, BIAS]), ("TsmConv.SetSparse", [0, 0])]
        steps += [(f"TsmConv.{name}", []) for name in ("DisableLeakyRelu", "EnableLeakyRelu")]
        steps += [(f"TsmConv.{name}", []) for name in ("DisableRelu", "EnableRelu")]
        yield call(steps, given, aligned(out, rounded(out, total + partial)))
    plain = convolved(x, w, (1, 1))
    steps = convolution("TsmConv", "FP16", x, w.shape, plain, "FP32")
    given = [(SRC0, aligned("FP16", x)), (SRC1, volume("FP16", w))]
    yield call(steps, given, aligned("FP32", plain))


def integer_convolution() -> Iterator[Call]:
    x, w = whole((1, 6, 7, 10), 15, 90), whole((3, 2, 12, 10), 16, 90)
    bias = whole((12,), 17, 60)
    total = convolved(x, w).astype(int)
    ones = np.ones(12, int)
    result = np.clip(chain(total, bias.astype(int), ones, ones, 6, 1) + 7, -128, 127)
    steps = convolution("TsmConv", "INT8", x, w.shape, total, "INT8")
    steps += [("TsmConv.SetDilations", DILATION), ("TsmConv.SetQuant", [1, 6, 0, 7])]
    steps += [("TsmConv.AddBias", [1, BIAS]), ("TsmConv.EnableRelu", [])]
    given = [(SRC0, aligned("INT8", x)), (SRC1, volume("INT8", w)), (BIAS, bias.astype("i4").tobytes())]
    yield call(steps, given, aligned("INT8", result))


def depthwise() -> Iterator[Call]:
    x, w = whole((1, 6, 7, 70), 18), whole((3, 2, 70), 19)
    total = convolved(x, w, (1, 1))
    for fmt, out in FORMATS:
        steps = convolution("TsmDepthwiseConv", fmt, x, (3, 2, 1, 70), total, out)
        given = [(SRC0, aligned(fmt, x)), (SRC1, volume(fmt, w))]
        yield call(steps, given, aligned(out, rounded(out, total)))


def backward() -> Iterator[Call]:
    """The gradient of the weights: operation type 2, whose result has their shape."""
    x, shape = whole((1, 6, 7, 10), 20), (3, 2, 12, 10)
    dy = whole(convolved(x, np.zeros(shape)).shape, 21)
    gradient = np.zeros(shape)
    for y, k, channel in np.ndindex(3, 2, 10):
        one = np.zeros(shape)
        one[y, k, 0, channel] = 1
        seen = convolved(x, one)[..., 0]
        gradient[y, k, :, channel] = np.einsum("nhw,nhwo->o", seen, dy)
    steps = convolution("TsmConv", "FP16", x, shape, gradient, "FP32")
    steps += [("TsmConv.SetOpType", [2]), ("TsmConv.SetDilations", DILATION)]
    given = [(SRC0, aligned("FP16", x)), (SRC1, aligned("FP16", dy))]
    yield call(steps, given, volume("FP32", gradient))


GROUPS = {
    "products": lambda: [*products(), *without_effect(), *integer_products()],
    "convolutions": lambda: [*convolutions(), *integer_convolution(), *depthwise(), *backward()],
}


@needs_gcc
@pytest.mark.parametrize("group", GROUPS)
def test_the_matrix_engine_computes_what_numpy_does(group: str, tmp_path: Path) -> None:
    check_calls(GROUPS[group](), tmp_path)


def test_every_member_is_called() -> None:
    called = {name for group in GROUPS.values() for c in group() for name, _ in ((c.member, ()), *c.more)}
    members = {f"{t.name}.{m.name}" for t in tables() if t.name in ("TsmGemm", "TsmConv") for m in t.members}
    assert members <= called


def test_depthwise_members_differ_in_the_input_alone() -> None:
    conv, depth = ({m.name: m for m in t.members} for t in tables() if t.name.endswith("Conv"))
    assert list(conv) == list(depth)
    differing = [name for name in conv if conv[name].fills != depth[name].fills]
    assert differing == ["AddInput"]
    assert [p.declared for p in conv["AddInput"].parameters] == [
        p.declared for p in depth["AddInput"].parameters
    ]


@needs_gcc
def test_sparse_weights_are_refused(tmp_path: Path) -> None:
    x, w = whole((1, 6, 7, 10), 12), whole((3, 2, 12, 10), 13)
    steps = convolution("TsmConv", "FP16", x, w.shape, convolved(x, w, (1, 1)), "FP32")
    steps.append(("TsmConv.SetSparse", [1, BIAS]))
    with pytest.raises(Fault, match="sparse"):
        check_calls([call(steps, [], b"\\0")], tmp_path)


# --- loads and stores ---------------------------------------------------------------------

MOVED = ("INT8", "INT16", "FP16", "BF16", "INT32", "FP32", "TF32")
LOADS = """\
#include <tx8.h>
#include "instr_operator.h"
#include "instr_adapter.h"
uint8_t source[65536], loaded[7 * 1024], target[7 * 8192];
static const struct {{ Data_Format format; uint32_t bytes; }} kinds[7] = {{{kinds}}};
int main(void) {{
    TsmRdma *const rdma = g_intrinsic()->rdma_pointer;
    TsmWdma *const wdma = g_intrinsic()->wdma_pointer;
    if (tx8_tile()) return 0;
    DMA_Param p = {{I_CGRA, {{0,}}, {{0,}}}};
    for (unsigned i = 0; i < 7; i++) {{
        const uint32_t size = 5 * 24 * kinds[i].bytes, spm = 0x10000 + 0x1000 * i;
        rdma->AddSrcDst(&p, tx8_engine_address(source) + 16 * i, spm, kinds[i].format);
        rdma->ConfigStrideIteration(&p, 5, 11, 4, 90, 3, 700, 2);
        TsmExecute(&p);
        wdma->Wdma1d(&p, spm, tx8_engine_address(loaded) + 1024 * i, size, Fmt_INT8);
        TsmExecute(&p);
        wdma->AddSrcDst(&p, spm, tx8_engine_address(target) + 8192 * i, kinds[i].format);
        wdma->ConfigStrideIteration(&p, 5, 11, 4, 90, 3, 700, 2);
        TsmExecute(&p);
    }}
    TsmWaitfinish();
    return 0;
}}
"""


@needs_gcc
def test_strided_loads_and_stores(tmp_path: Path) -> None:
    """Strides in elements, plain trip counts; one packet for all, which each start clears."""
    kinds = ", ".join(f"{{Fmt_{fmt}, {DTYPES[fmt].itemsize}}}" for fmt in MOVED)
    source = np.random.default_rng(22).integers(0, 256, 65536).astype("u1")
    sizes = {"loaded": 7 * 1024, "target": 7 * 8192}
    found = ran(LOADS.format(kinds=kinds), tmp_path, {"source": source.tobytes()}, sizes)
    starts = [i0 * 11 + i1 * 90 + i2 * 700 for i2 in range(2) for i1 in range(3) for i0 in range(4)]
    places = np.array([start + j for start in starts for j in range(5)])
    for i, fmt in enumerate(MOVED):
        width = DTYPES[fmt].itemsize
        elements = source[16 * i :][: 8192 // width * width].reshape(-1, width)
        loaded = elements[places]
        part = found["loaded"][1024 * i :][: loaded.size]
        assert part == loaded.tobytes(), fmt
        target = np.zeros((8192 // width, width), "u1")
        target[places] = loaded
        assert found["target"][8192 * i :][: target.size] == target.tobytes(), fmt


@needs_gcc
def test_bits_are_loaded_by_bytes(tmp_path: Path) -> None:
    """BOOL counts bits: 16 of them, 32 apart, are two bytes, four apart."""
    source = (
        '#include <tx8.h>\n#include "instr_operator.h"\n#include "instr_adapter.h"\n'
        "uint8_t source[64], loaded[8];\n"
        "int main(void) { if (tx8_tile()) return 0; DMA_Param p = {I_RDMA, {0,}, {0,}};"
        "TsmNewRdma()->AddSrcDst(&p, tx8_engine_address(source), 0x10000, Fmt_BOOL);"
        "TsmNewRdma()->ConfigStrideIteration(&p, 16, 32, 4, 0, 1, 0, 1); TsmExecute(&p);"
        "TsmNewWdma()->Wdma1d(&p, 0x10000, tx8_engine_address(loaded), 8, Fmt_INT8); TsmExecute(&p);"
        "TsmWaitfinish(); return 0; }\n"
    )
    data = bytes(range(64))
    assert ran(source, tmp_path, {"source": data}, {"loaded": 8})["loaded"] == bytes(
        [0, 1, 4, 5, 8, 9, 12, 13]
    )


@needs_gcc
@pytest.mark.parametrize(("count", "trips"), [(0, 1), (8, 0)])
def test_an_empty_load_is_refused(count: int, trips: int, tmp_path: Path) -> None:
    source = (
        '#include <tx8.h>\n#include "instr_operator.h"\n#include "instr_adapter.h"\nuint8_t source[64];\n'
        "int main(void) { if (tx8_tile()) return 0; DMA_Param p = {I_RDMA, {0,}, {0,}};"
        "TsmNewRdma()->AddSrcDst(&p, tx8_engine_address(source), 0x10000, Fmt_FP16);"
        f"TsmNewRdma()->ConfigStrideIteration(&p, {count}, 0, {trips}, 0, 1, 0, 1); TsmExecute(&p);"
        "TsmWaitfinish(); return 0; }\n"
    )
    with pytest.raises(Fault, match="rdma"):
        ran(source, tmp_path, {}, {})
