"""Speed of the matrix engine's kernels on one thread, compared with OpenBLAS and onnxruntime.

    python benchmarks/ne.py [gemm] [conv] [depthwise] [tiles]

The figure of a GEMM includes all conversions; it is compared with sgemm alone on prepared binary32 matrices.
INT8 is computed with the byte products of VNNI, where the processor has them, and with 16-bit halves.
Convolutions are compared with onnxruntime in binary32 if it is installed. ``tiles`` compares one program on
sixteen tiles with two threads and with one. All sides run in turn, and the medians of the rounds count.
"""

from __future__ import annotations

import os

os.environ.update(OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1", MKL_NUM_THREADS="1")  # before NumPy starts

import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import asm
from _report import promise
from emulator import native
from emulator.chip.system import System
from emulator.kernels.ne import problem as word
from emulator.kernels.ne.arithmetic import MatrixArithmetic
from emulator.kernels.ne.conv import conv_scratch_bytes, make_conv
from emulator.kernels.ne.depthwise import depthwise_scratch_bytes, make_depthwise
from emulator.kernels.ne.gemm import gemm_scratch_bytes, make_gemm
from emulator.kernels.ne.problem import make_problem
from emulator.kernels.ne.sums.channels import make_channels
from emulator.kernels.ne.sums.floats import make_float
from emulator.kernels.ne.sums.integers import VNNI, make_integer
from tx8isa.machine.description import load_machine
from tx8isa.numbers.formats import Format
from tx8isa.numbers.layouts import Layout, place

ROUNDS = 11
MIN_SECONDS = 0.02
FP16 = int(Format.FP16)
FLOAT = make_float(Format.FP16, post=False)
BYTES, HALVES = make_integer(vnni=True), make_integer(vnni=False)

Case = Callable[[], Any]


def in_turn(cases: dict[str, Case]) -> dict[str, float]:
    """Median seconds per call. The cases run in turn; a sample repeats its call for ``MIN_SECONDS``."""
    repeats = {}
    for name, case in cases.items():
        case()
        start = time.perf_counter()
        case()
        repeats[name] = max(1, int(MIN_SECONDS / (time.perf_counter() - start)))
    seconds: dict[str, list[float]] = {name: [] for name in cases}
    for _ in range(ROUNDS):
        for name, case in cases.items():
            start = time.perf_counter()
            for _ in range(repeats[name]):
                case()
            seconds[name].append((time.perf_counter() - start) / repeats[name])
    return {name: statistics.median(values) for name, values in seconds.items()}


def report(title: str, operations: float, seconds: dict[str, float], anchor: str) -> None:
    """Print GFLOP/s of every case, and its speed relative to the case ``anchor``."""
    parts = []
    for name, value in seconds.items():
        ratio = "" if name == anchor else f" ({seconds[anchor] / value:.0%})" if anchor in seconds else ""
        parts.append(f"{name} {operations / value / 1e9:.1f}{ratio}")
    print(f"{title:28s} GFLOP/s: {', '.join(parts)}", flush=True)


def aligned(shape: tuple[int, ...], seed: int, fmt: Format = Format.FP16) -> np.ndarray:
    """A channel-blocked tensor in memory, filled with small integers, padding included."""
    layout = Layout.CX if len(shape) == 2 else Layout.NCX
    words = place(fmt, shape, layout).total_bytes * 8 // fmt.bits
    numbers = np.random.default_rng(seed).integers(-4, 5, words)
    return numbers.astype(np.int8) if fmt is Format.INT8 else numbers.astype(np.float16).view(np.uint16)


CALLS = 16
"""GEMMs per measured call: compiled code calls them, as in the emulator; Python calls OpenBLAS."""


def make_repeated(arithmetic: MatrixArithmetic) -> Callable[[int, int], int]:
    """A kernel that computes one GEMM ``times`` times."""
    gemm = make_gemm(arithmetic)

    def repeated(problem: int, times: int) -> int:
        for _ in range(times):
            gemm(problem)
        return 0

    return repeated


def sgemm_case(m: int, k: int, n: int) -> Case:
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(shape).astype(np.float32) for shape in ((m, k), (k, n)))
    out = np.empty((m, n), np.float32)

    def run() -> None:
        for _ in range(CALLS):
            np.matmul(a, b, out=out)

    return run


def on_memories(problem: np.ndarray, *memories: np.ndarray) -> np.ndarray:
    """The problem with its operands A and B, its result and its working memory."""
    for position, memory in zip((word.A, word.B, word.OUT, word.WORK), memories, strict=True):
        problem[position] = memory.ctypes.data
    return problem


def gemm_case(kernel: int, arithmetic: MatrixArithmetic, m: int, k: int, n: int, lt: int, rt: int) -> Case:
    fmt = Format.INT8 if arithmetic.bits == 8 else Format.FP16
    a, b = aligned((k, m) if lt else (m, k), 1, fmt), aligned((k, n) if rt else (n, k), 2, fmt)
    out, scratch = (
        aligned((m, n), 3, fmt),
        np.zeros(gemm_scratch_bytes(arithmetic, m, k, n, 1, 1, fmt), np.uint8),
    )
    problem = make_problem(m=m, k=k, n=n, lt=lt, rt=rt, lb=1, rb=1, out_format=fmt)
    kept = (a, b, out, scratch, on_memories(problem, a, b, out, scratch))

    def run() -> tuple[np.ndarray, ...]:
        native.call(kernel, problem.ctypes.data, CALLS)
        return kept

    return run


def repeated_kernel(arithmetic: MatrixArithmetic, name: str) -> int:
    return native.compile_kernel(make_repeated(arithmetic), f"ne.gemm.{name} repeated", 2, compact=True)


GEMMS = (
    *((128, 512, 128), (128, 500, 120), (64, 64, 64), (16, 512, 512), (1, 512, 512)),
    *((196, 2304, 256), (512, 512, 512), (17, 512, 128), (33, 500, 100)),
)

LARGE = ((128, 512, 128), (196, 2304, 256), (512, 512, 512))


def gemms() -> None:
    kernel = repeated_kernel(FLOAT, "fp16")
    for m, k, n in GEMMS:
        cases: dict[str, Case] = {
            "sgemm": sgemm_case(m, k, n),
            "B [K,N]": gemm_case(kernel, FLOAT, m, k, n, 0, 1),
            "B [N,K]": gemm_case(kernel, FLOAT, m, k, n, 0, 0),
            "A [K,M]": gemm_case(kernel, FLOAT, m, k, n, 1, 1),
        }
        seconds = in_turn(cases)
        report(f"gemm fp16 {m}x{k}x{n}", 2.0 * m * k * n * CALLS, seconds, "sgemm")
        if m >= 16:
            promise(
                f"`ne.gemm` fp16 {m}x{k}x{n}, Cx to Cx, conversions included",
                seconds["sgemm"] / seconds["B [K,N]"],
                "%",
                at_least=1.05 if (m, k, n) in LARGE else 0.85,
                against="OpenBLAS sgemm alone on ready fp32 matrices, one thread",
            )


def integer_gemms() -> None:
    """Compare INT8 with FP16 and with sgemm."""
    kernel, halves = repeated_kernel(FLOAT, "fp16"), repeated_kernel(HALVES, "int8 halves")
    bytes_ = repeated_kernel(BYTES, "int8 bytes") if VNNI else 0
    for m, k, n in (*LARGE, (64, 64, 64), (17, 500, 100)):
        cases = {"fp16": gemm_case(kernel, FLOAT, m, k, n, 0, 1), "sgemm": sgemm_case(m, k, n)}
        if VNNI:
            cases["bytes B [K,N]"] = gemm_case(bytes_, BYTES, m, k, n, 0, 1)
            cases["bytes B [N,K]"] = gemm_case(bytes_, BYTES, m, k, n, 0, 0)
            cases["bytes A [K,M]"] = gemm_case(bytes_, BYTES, m, k, n, 1, 1)
        cases["halves B [K,N]"] = gemm_case(halves, HALVES, m, k, n, 0, 1)
        cases["halves B [N,K]"] = gemm_case(halves, HALVES, m, k, n, 0, 0)
        seconds = in_turn(cases)
        report(f"gemm int8 {m}x{k}x{n}", 2.0 * m * k * n * CALLS, seconds, "fp16")
        if (m, k, n) in LARGE:
            peer, own, goal = ("fp16", "bytes", 3.0) if VNNI else ("sgemm", "halves", 1.0)
            ratio = seconds[peer] / seconds[f"{own} B [K,N]"]
            what = f"`ne.gemm` int8 {m}x{k}x{n}"
            promise(what, ratio, "times", at_least=goal, against=f"the same by {peer}")


CONVS = (
    *((64, 64, 56, 3, 1), (256, 256, 28, 3, 1), (512, 512, 7, 3, 1), (256, 64, 56, 1, 1)),
    *((3, 64, 224, 7, 2), (128, 256, 56, 3, 2)),
)


def extent(size: int, k: int, s: int) -> int:
    """Rows of the result of an image of ``size`` rows with pads of half a window."""
    return (size + 2 * (k // 2) - k) // s + 1


def window(c: int, o: int, size: int, k: int, s: int) -> dict[str, int]:
    """The words of a problem: one square image, a square window, the same stride along both axes."""
    image = {"batch": 1, "h": size, "w": size, "c": c, "maps": o}
    result = {"oh": extent(size, k, s), "ow": extent(size, k, s), "top": k // 2, "left": k // 2}
    return {**image, **result, "ky": k, "kx": k, "sy": s, "sx": s, "dy": 1, "dx": 1}


def conv_case(kernel: int, arithmetic: MatrixArithmetic, c: int, o: int, size: int, k: int, s: int) -> Case:
    result = extent(size, k, s)
    fmt = Format.INT8 if arithmetic.bits == 8 else Format.FP16
    shapes = (1, size, size, c), (k * k * o, c), (1, result, result, o)
    x, w, out = (aligned(shape, seed, fmt) for seed, shape in enumerate(shapes))
    problem = make_problem(**window(c, o, size, k, s), out_format=fmt)
    needed = problem[word.WORK_BYTES] = conv_scratch_bytes(arithmetic, problem.ctypes.data)
    scratch = np.zeros(needed, np.uint8)
    kept = (x, w, out, scratch, on_memories(problem, x, w, out, scratch))

    def run() -> tuple[np.ndarray, ...]:
        native.call(kernel, problem.ctypes.data)
        return kept

    return run


def depthwise_case(kernel: int, fmt: Format, c: int, size: int, k: int, s: int) -> Case:
    result = extent(size, k, s)
    shapes = (1, size, size, c), (k * k, c), (1, result, result, c)
    x, w, out = (aligned(shape, seed, fmt) for seed, shape in enumerate(shapes))
    scratch = np.zeros(depthwise_scratch_bytes(1, result, result, c, fmt), np.uint8)
    problem = make_problem(**window(c, c, size, k, s), out_format=fmt)
    kept = (x, w, out, scratch, on_memories(problem, x, w, out, scratch))

    def run() -> tuple[np.ndarray, ...]:
        native.call(kernel, problem.ctypes.data)
        return kept

    return run


def onnxruntime_case(c: int, o: int, size: int, k: int, s: int, group: int = 1) -> Case | None:
    """The convolution as onnxruntime computes it in binary32, or None where that is not installed."""
    try:
        import onnxruntime
        from onnx import TensorProto, helper, numpy_helper
    except ImportError:
        return None
    rng = np.random.default_rng(0)
    x = rng.standard_normal((1, c, size, size)).astype(np.float32)
    w = rng.standard_normal((o, c // group, k, k)).astype(np.float32)
    node = helper.make_node("Conv", ["x", "w"], ["y"], pads=[k // 2] * 4, strides=[s, s], group=group)
    graph = helper.make_graph(
        [node],
        "conv",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(w, "w")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])
    return lambda: session.run(None, {"x": x})


def convs() -> None:
    kernel = native.compile_kernel(make_conv(FLOAT), "ne.conv.fp16", 1, compact=True)
    integers = BYTES if VNNI else HALVES
    int8 = native.compile_kernel(make_conv(integers), "ne.conv.int8", 1, compact=True)
    for c, o, size, k, s in CONVS:
        cases: dict[str, Case] = {}
        peer = onnxruntime_case(c, o, size, k, s)
        if peer:
            cases["onnxruntime"] = peer
        cases["fp16"] = conv_case(kernel, FLOAT, c, o, size, k, s)
        cases["int8"] = conv_case(int8, integers, c, o, size, k, s)
        result = extent(size, k, s)
        operations = 2.0 * result * result * o * c * k * k
        seconds = in_turn(cases)
        report(f"conv {k}x{k}/{s} {c}-{o}@{size}", operations, seconds, "onnxruntime")
        if peer:
            promise(
                f"`ne.conv` fp16 {k}x{k}/{s} {c}-{o}, {size}x{size}",
                seconds["onnxruntime"] / seconds["fp16"],
                "%",
                at_least=0.65 if size == 7 or c < 16 else 0.95,
                against="onnxruntime's fp32 convolution, one thread",
            )


def depthwise() -> None:
    kernels = {
        fmt: native.compile_kernel(
            make_depthwise(make_channels(fmt, post=False)), f"ne.dwconv.{fmt.token}", 1, compact=True
        )
        for fmt in (Format.FP16, Format.INT8)
    }
    for c, size, k, s in ((64, 112, 3, 1), (128, 56, 3, 2), (512, 14, 3, 1), (256, 28, 5, 1)):
        peer = onnxruntime_case(c, c, size, k, s, group=c)
        cases: dict[str, Case] = {"onnxruntime": peer} if peer else {}
        for fmt, kernel in kernels.items():
            cases[fmt.token] = depthwise_case(kernel, fmt, c, size, k, s)
        result = extent(size, k, s)
        operations = 2.0 * result * result * c * k * k
        report(f"depthwise {k}x{k}/{s} {c}@{size}", operations, in_turn(cases), "onnxruntime")


TILES = """
_start: td.memset.fp16 dst=0x10000, value=0x3c00, n=0x80000
        ncc.wait
        li   t0, 500
1:      ne.gemm.fp16 a=0x10000, b=0x60000, out=0xb0000, m=128, k=512, n=128
        addi t0, t0, -1
        bnez t0, 1b
        ncc.wait
        li   a0, 0
        li   a7, 93
        ecall
"""
"""Every tile: GEMMs of 128x512x128."""


def tiles() -> None:
    image, machine = asm.assemble(TILES), load_machine()

    def case(threads: int) -> Case:
        return lambda: System(image, machine, threads=threads).run()

    seconds = in_turn({"one thread": case(1), "two threads": case(2)})
    ratio = seconds["one thread"] / seconds["two threads"]
    report("16 tiles, 128x512x128", 16 * 500 * 2.0 * 128 * 512 * 128, seconds, "one thread")
    what = "`ne.gemm` fp16 on sixteen tiles, two threads"
    promise(what, ratio, "times", at_least=1.85, against="one thread")


def main() -> None:
    chosen = sys.argv[1:] or ["gemm", "conv", "depthwise", "tiles"]
    if "gemm" in chosen:
        gemms()
        integer_gemms()
    if "conv" in chosen:
        convs()
    if "depthwise" in chosen:
        depthwise()
    if "tiles" in chosen:
        tiles()


if __name__ == "__main__":
    main()
