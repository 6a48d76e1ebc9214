"""Speed of the matrix engine's kernels on one thread, against OpenBLAS and onnxruntime in the same run.

    python benchmarks/ne.py [gemm] [conv]

GEMM: bytes to bytes, both conversions included, against sgemm alone on ready binary32 matrices. Convolution:
against onnxruntime in binary32 when it is installed. Both sides run in turn; medians of the rounds.
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
from _report import promise

from emulator import native
from emulator.native.memory import view_i64
from emulator.ne.conv import conv_scratch_bytes, make_conv
from emulator.ne.gemm import gemm_scratch_bytes, make_gemm
from tx8isa.formats import Format
from tx8isa.layouts import Layout, place

ROUNDS = 11
MIN_SECONDS = 0.02
FP16 = int(Format.FP16)

Case = Callable[[], Any]


def in_turn(cases: dict[str, Case]) -> dict[str, float]:
    """Median seconds per call; the cases alternate, each call repeated to at least ``MIN_SECONDS``."""
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
    """One line: GFLOP/s of every case, and as a ratio of the anchor."""
    parts = []
    for name, value in seconds.items():
        ratio = "" if name == anchor else f" ({seconds[anchor] / value:.0%})" if anchor in seconds else ""
        parts.append(f"{name} {operations / value / 1e9:.1f}{ratio}")
    print(f"{title:28s} GFLOP/s: {', '.join(parts)}", flush=True)


def aligned(shape: tuple[int, ...], seed: int) -> np.ndarray:
    """An aligned FP16 tensor in memory, filled with small integers, padding lanes included."""
    layout = Layout.CX if len(shape) == 2 else Layout.NCX
    words = place(Format.FP16, shape, layout).total_bytes // 2
    return np.random.default_rng(seed).integers(-4, 5, words).astype(np.float16).view(np.uint16)


CALLS = 16
"""GEMMs per measured call: made from compiled code, as the emulator does, and from Python for OpenBLAS."""


def make_repeated() -> Callable[[int, int], int]:
    """A kernel that runs one GEMM ``times`` times; ``fields`` holds its arguments."""
    gemm = make_gemm(Format.FP16)

    def repeated(fields: int, times: int) -> int:
        f = view_i64(fields, 14)
        for _ in range(times):
            gemm(f[0], f[1], f[2], f[3], f[4], f[5], f[6], f[7], f[8], f[9], f[10], f[11], f[12], f[13])
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


def gemm_case(kernel: int, m: int, k: int, n: int, lt: int, rt: int) -> Case:
    a, b = aligned((k, m) if lt else (m, k), 1), aligned((k, n) if rt else (n, k), 2)
    out = aligned((m, n), 3)
    scratch = np.zeros(gemm_scratch_bytes(m, k, n, 1, 1, FP16), np.uint8)
    pointers = [x.ctypes.data for x in (a, b, out, out, scratch)]
    fields = np.array([*pointers, m, k, n, lt, rt, 1, 1, FP16, -1], np.int64)
    kept = (a, b, out, scratch)

    def run() -> tuple[np.ndarray, ...]:
        native.call(kernel, fields.ctypes.data, CALLS)
        return kept

    return run


GEMMS = (
    *((128, 512, 128), (128, 500, 120), (64, 64, 64), (16, 512, 512), (1, 512, 512)),
    *((196, 2304, 256), (512, 512, 512)),
)


def gemms() -> None:
    kernel = native.compile_kernel(make_repeated(), "ne.gemm.fp16 repeated", 2)
    for m, k, n in GEMMS:
        cases: dict[str, Case] = {
            "sgemm": sgemm_case(m, k, n),
            "B [K,N]": gemm_case(kernel, m, k, n, 0, 1),
            "B [N,K]": gemm_case(kernel, m, k, n, 0, 0),
            "A [K,M]": gemm_case(kernel, m, k, n, 1, 1),
        }
        seconds = in_turn(cases)
        report(f"gemm fp16 {m}x{k}x{n}", 2.0 * m * k * n * CALLS, seconds, "sgemm")
        if (m, k, n) == (128, 512, 128):
            promise(
                "`ne.gemm` fp16 128x512x128, Cx to Cx, conversions included",
                seconds["sgemm"] / seconds["B [K,N]"], "%", at_least=0.9,
                beside="OpenBLAS sgemm alone on ready fp32 matrices, one thread",
            )  # fmt: skip


CONVS = (
    *((64, 64, 56, 3, 1), (256, 256, 28, 3, 1), (512, 512, 7, 3, 1), (256, 64, 56, 1, 1)),
    *((3, 64, 224, 7, 2), (128, 256, 56, 3, 2)),
)


def conv_case(kernel: int, c: int, o: int, size: int, k: int, s: int) -> Case:
    pad, result = k // 2, (size + 2 * (k // 2) - k) // s + 1
    x, w, out = aligned((1, size, size, c), 1), aligned((k * k * o, c), 2), aligned((1, result, result, o), 3)
    needed = conv_scratch_bytes(1, c, result, result, o, k, k, s, s, 1, 1, FP16)
    scratch = np.zeros(needed, np.uint8)
    pointers = [array.ctypes.data for array in (x, w, out, out, scratch)]
    kept = (x, w, out, scratch)
    shape = (needed, 1, size, size, c, result, result, o, k, k, s, s, pad, pad, 1, 1, FP16, -1)

    def run() -> tuple[np.ndarray, ...]:
        native.call(kernel, *pointers, *shape)
        return kept

    return run


def onnxruntime_case(c: int, o: int, size: int, k: int, s: int) -> Case | None:
    """The same convolution in binary32, or None without onnxruntime."""
    try:
        import onnxruntime
        from onnx import TensorProto, helper, numpy_helper
    except ImportError:
        return None
    rng = np.random.default_rng(0)
    x = rng.standard_normal((1, c, size, size)).astype(np.float32)
    w = rng.standard_normal((o, c, k, k)).astype(np.float32)
    node = helper.make_node("Conv", ["x", "w"], ["y"], pads=[k // 2] * 4, strides=[s, s])
    graph = helper.make_graph(
        [node], "conv",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(w, "w")],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])
    return lambda: session.run(None, {"x": x})


def convs() -> None:
    kernel = native.compile_kernel(make_conv(Format.FP16), "ne.conv.fp16", 23)
    for c, o, size, k, s in CONVS:
        cases: dict[str, Case] = {}
        peer = onnxruntime_case(c, o, size, k, s)
        if peer:
            cases["onnxruntime"] = peer
        cases["fp16"] = conv_case(kernel, c, o, size, k, s)
        result = (size + 2 * (k // 2) - k) // s + 1
        operations = 2.0 * result * result * o * c * k * k
        report(f"conv fp16 {k}x{k}/{s} {c}-{o}@{size}", operations, in_turn(cases), "onnxruntime")


def main() -> None:
    chosen = sys.argv[1:] or ["gemm", "conv"]
    if "gemm" in chosen:
        gemms()
    if "conv" in chosen:
        convs()


if __name__ == "__main__":
    main()
