"""Speed of the emulator's kernels, compared with a copy of as many bytes by NumPy.

    python benchmarks/vector.py

Figures are medians of 15 runs on one thread. "of copy" is the rate of bytes read and written, relative to
``np.copyto`` of 1 MiB. The time for compiling a kernel is printed too. Functions are compared with those of
NumPy on the same FP32 numbers, and checked kernels with unchecked ones.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from functools import partial

import numpy as np

from emulator import native
from emulator.kernels import is_compact, kernel_name, make_kernel, make_table
from emulator.memory import state
from emulator.native.primitives.memory import call_kernel, view_i64
from tx8isa.numbers.formats import Format
from tx8isa.numbers.primitives import s64
from tx8isa.table.registry import by_mnemonic

MIB = 1 << 20
RUNS = 15
CALLS = 10_000


def median_seconds(work: Callable[[], object]) -> float:
    """The median duration; the first two runs do not count."""
    times = []
    for _ in range(RUNS + 2):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return statistics.median(times[2:])


def pack(*lanes: int) -> int:
    """A packed shape, n first."""
    value = 0
    for lane in lanes:
        value = value << 16 | lane
    return value


class Bench:
    """A tile's memories and compiled kernels."""

    def __init__(self) -> None:
        rng = np.random.default_rng(0)
        self.spm = rng.normal(size=2 * MIB).astype(np.float16).view(np.uint8)
        self.ddr = self.spm.copy()
        self.scratch = np.zeros(9 * MIB, np.uint8)
        self.state = np.zeros(state.SIZE, np.int64)
        for word, memory in ((state.SPM, self.spm), (state.DDR, self.ddr), (state.SCRATCH, self.scratch)):
            self.state[word] = memory.ctypes.data
        self.state[state.RANDOM] = 1
        copy = median_seconds(lambda: np.copyto(self.spm[:MIB], self.spm[2 * MIB : 3 * MIB]))
        self.copy_rate = 2 * MIB / copy
        print(f"np.copyto of 1 MiB: {copy * 1e6:.1f} us, {self.copy_rate / 1e9:.1f} GB/s read and written\n")
        print(f"{'kernel':40} {'us':>9} {'G elem/s':>9} {'of copy':>8} {'compiled in':>12}")

    def prepare(
        self, mnemonic: str, fmt: Format | None, operands: dict[str, int], checked: bool = False
    ) -> tuple[int, int, float]:
        """The kernel's address, the address of its fields, and the seconds spent compiling.

        ``self.fields`` keeps the fields alive.
        """
        record = by_mnemonic()[mnemonic]
        nearest = operands.get("rnd", 0) == 0
        start = time.perf_counter()
        name = kernel_name(record, fmt, nearest, checked)
        kernel = make_kernel(record, fmt, nearest, checked)
        address = native.compile_kernel(kernel, name, 2, compact=is_compact(record))
        table = make_table(record, fmt)
        seconds = time.perf_counter() - start
        defaults = (o.default if isinstance(o.default, int) else 0 for o in record.operands)
        values = [operands.get(o.name, d) for o, d in zip(record.operands, defaults, strict=True)]
        self.fields = np.array([*values, 0 if table is None else table.ctypes.data], np.int64)
        return address, self.fields.ctypes.data, seconds

    def line(
        self,
        mnemonic: str,
        fmt: Format | None,
        elements: int,
        traffic: int,
        note: str = "",
        /,
        **operands: int,
    ) -> None:
        """Run one kernel and print its figures; ``traffic`` is in bytes read and written."""
        address, fields, compiled = self.prepare(mnemonic, fmt, operands)
        tile = self.state.ctypes.data
        seconds = median_seconds(lambda: native.call(address, fields, tile))
        name = f"{mnemonic}{'.' + fmt.token if fmt is not None else ''} {note}".strip()
        share = traffic / seconds / self.copy_rate
        rate = elements / seconds / 1e9
        print(f"{name:40} {seconds * 1e6:9.1f} {rate:9.2f} {share:8.0%} {compiled:10.2f} s")

    def race(self, name: str, peer: Callable[..., object] | None) -> None:
        """Compare a function with that of NumPy, if it has one, on normally distributed FP32 numbers."""
        n = MIB // 4
        numbers = np.abs(np.random.default_rng(1).normal(size=n)).astype(np.float32)
        if name not in ("ln", "log2"):
            numbers[::2] *= -1
        self.spm[MIB : 2 * MIB] = numbers.view(np.uint8)
        address, fields, _ = self.prepare(f"ct.{name}.v", Format.FP32, {"dst": 0, "src0": MIB, "n": n})
        tile, out = self.state.ctypes.data, np.empty_like(numbers)
        ours = n / median_seconds(lambda: native.call(address, fields, tile)) / 1e9
        if peer is None:
            print(f"{name:10} {ours:6.2f} G elements/s")
            return
        theirs = n / median_seconds(lambda: peer(numbers, out=out)) / 1e9
        print(f"{name:10} {ours:6.2f} G elements/s, NumPy {theirs:6.2f}: {ours / theirs:.0%}")

    def checked(self, mnemonic: str, fmt: Format) -> None:
        """Measure how much slower kernels are that note numeric exceptions."""
        n, tile = MIB * 8 // fmt.bits, self.state.ctypes.data
        costs = []
        for also in (False, True):
            operands = {"dst": 0, "src0": MIB, "src1": 2 * MIB, "n": n}
            address, fields, _ = self.prepare(mnemonic, fmt, operands, also)
            call = partial(native.call, address, fields, tile)
            costs.append(median_seconds(call) / n * 1e9)
        print(f"{mnemonic}.{fmt.token}: plain {costs[0]:.2f} ns per element, checked {costs[1]:.2f}")

    def call_overhead(self) -> None:
        """Measure the time of a kernel of 64 elements that is called from compiled code."""
        address, fields, _ = self.prepare(
            "ct.add.vv", Format.FP32, {"dst": 0, "src0": MIB, "src1": 2 * MIB, "n": 64}
        )
        arguments = np.array([address, fields], np.int64)
        caller = native.compile_kernel(call_many, "benchmark caller", 2)
        seconds = median_seconds(lambda: native.call(caller, arguments.ctypes.data, self.state.ctypes.data))
        print(f"\nct.add.vv.fp32 of 64 elements: {seconds / CALLS * 1e9:.1f} ns per call,")
        print("called from compiled code")


def call_many(arguments: int, tile: int) -> int:
    """Call one kernel CALLS times."""
    words = view_i64(arguments, 2)
    for _ in range(CALLS):
        call_kernel(s64(words[0]), s64(words[1]), tile)
    return 0


def vectors(bench: Bench) -> None:
    two = {"dst": 0, "src0": MIB, "src1": 2 * MIB}
    for mnemonic in ("ct.add.vv", "ct.mul.vv", "ct.max.vv", "ct.div.vv"):
        for fmt in (Format.FP32, Format.FP16, Format.BF16):
            n = MIB * 8 // fmt.bits
            bench.line(mnemonic, fmt, n, 3 * MIB, **two, n=n)
    n = MIB // 2
    bench.line("ct.add.vv", Format.FP16, n, 3 * MIB, "in place", dst=MIB, src0=MIB, src1=2 * MIB, n=n)
    for mode, name in enumerate(("toward zero", "up", "down", "stochastic"), 1):
        bench.line("ct.add.vv", Format.FP16, n, 3 * MIB, name, **two, n=n, rnd=mode)
        bench.line("ct.div.vv", Format.FP32, n // 2, 3 * MIB, name, **two, n=n // 2, rnd=mode)
        bench.line("ct.cvt.fp32.fp16", None, n // 2, n * 3, name, dst=0, src0=2 * MIB, n=n // 2, rnd=mode)
    bench.line("ct.add.vs", Format.FP16, n, 2 * MIB, dst=0, src0=MIB, src1=0x3C00, n=n)
    bench.line("ct.add.vuv", Format.FP16, n, 2 * MIB, **two, n=n, unit=32)
    groups = {"n": n // 8, "unit": 64, "full": n, "full_unit": 512}
    bench.line("ct.add.vuv_loop", Format.FP16, n, 2 * MIB, **two, **groups)
    for mnemonic in ("ct.relu.v", "ct.sqrt.v", "ct.exp.v"):
        for fmt in (Format.FP32, Format.FP16):
            bench.line(mnemonic, fmt, MIB * 8 // fmt.bits, 2 * MIB, dst=0, src0=MIB, n=MIB * 8 // fmt.bits)
    for pair in ("fp32.fp16", "fp16.fp32", "fp32.bf16", "int8.fp16", "fp32.int8", "int32.fp32"):
        source, target = (Format.parse(token) for token in pair.split("."))
        n = MIB // 4
        traffic = n * (source.bits + target.bits) // 8
        bench.line(f"ct.cvt.{pair}", None, n, traffic, dst=0, src0=2 * MIB, n=n)


def functions(bench: Bench) -> None:
    print()
    peers = {
        "exp": np.exp,
        "exp_lp": np.exp,
        "pow2": np.exp2,
        "ln": np.log,
        "log2": np.log2,
        "tanh": np.tanh,
        "sin": np.sin,
        "cos": np.cos,
        "sigmoid": None,
        "softplus": None,
    }
    for name, peer in peers.items():
        bench.race(name, peer)
    for mnemonic in ("ct.add.vv", "ct.div.vv", "ct.exp.v"):
        bench.checked(mnemonic, Format.FP32)


def tensors(bench: Bench) -> None:
    image, bytes_ = pack(1, 56, 56, 64), 56 * 56 * 128
    for dims, name in ((0, "c"), (1, "w"), (2, "h"), (4, "hw")):
        place = {"dst": 2 * MIB, "src0": 0, "shape": image, "dims": dims}
        bench.line("ct.reduce.sum", Format.FP16, bytes_ // 2, bytes_, name, **place)
    window = {"pad": pack(1, 1, 1, 1), "window": pack(3, 3, 2, 2), "dst_shape": pack(1, 28, 28, 64)}
    bench.line(
        "ct.pool.max",
        Format.FP16,
        28 * 28 * 64 * 9,
        bytes_,
        "3x3/2",
        dst=2 * MIB,
        src0=0,
        shape=image,
        **window,
    )
    place = {"dst": 2 * MIB, "src0": 0, "shape": image, "dst_shape": image}
    for mnemonic in ("td.channelnorm", "td.nhwc2nchw", "td.nchw2nhwc", "td.transpose"):
        bench.line(mnemonic, Format.FP16, bytes_ // 2, 2 * bytes_, **place)
    padded = {"dst_shape": pack(1, 58, 58, 64), "pad": pack(1, 1, 1, 1)}
    bench.line("td.pad", Format.FP16, bytes_ // 2, 2 * bytes_, **(place | padded))
    joined = {"src1": MIB, "dst_shape": pack(1, 56, 56, 128), "dims": 0}
    bench.line("ct.concat", Format.FP16, bytes_, 4 * bytes_, **(place | joined))


def moves(bench: Bench) -> None:
    bench.line("rdma", Format.FP16, MIB // 2, 2 * MIB, "contiguous", dst=0, src=MIB, n=MIB // 2)
    rows = {"n": 32, "stride0": 64, "iter0": MIB // 64}
    bench.line("rdma", Format.FP16, MIB // 2, 2 * MIB, "rows of 64 bytes", dst=0, src=MIB, **rows)
    bench.line("wdma", Format.FP16, MIB // 2, 2 * MIB, "contiguous", dst=0, src=MIB, n=MIB // 2)
    bench.line("td.memset", Format.FP16, MIB // 2, MIB, dst=0, value=0x3C00, n=MIB // 2)
    spread = {"n": 2, "src_stride0": 2, "src_iter0": MIB // 4, "dst_stride0": 4, "dst_iter0": MIB // 4}
    bench.line("td.gatherscatter", None, MIB // 4, MIB, "2 bytes each", dst=0, src0=2 * MIB, **spread)


if __name__ == "__main__":
    bench = Bench()
    vectors(bench)
    tensors(bench)
    moves(bench)
    functions(bench)
    bench.call_overhead()
