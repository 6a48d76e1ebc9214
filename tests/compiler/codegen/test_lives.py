"""Declared live ranges of compiled programs, against the bytes that the emulated engines touch."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import combinations

import pytest

import asm
import emulator
from asm.image import Image, LiveRange, ddr_offset, read_image, write_image
from compiler.codegen.kernel import Kernel, Target
from compiler.codegen.schedule.lives import uses_of
from compiler.codegen.slices.tensors import DdrTensor
from compiler.driver import Program, compile_graph
from compiler.graph import Graph
from compiler.passes.groups import borders
from compiler.tools.run import random_inputs
from compiler_harness import draw, graph, one
from emulator.engines.queues import DDR
from emulator.watch.accesses import spm_accesses
from sharded_nets import mlp, normalized_first
from stack_nets import bottleneck, fire, stem
from time_bench import Keep
from tx8isa.numbers.formats import Format
from tx8isa.records.record import Engine


def product() -> Graph:
    return one("MatMul", [(300, 200)], {"w": draw(200, 1700)})


def chain() -> Graph:
    """Two phases whose weights are loaded in the phase before."""
    weights = {"w": draw(70, 64, 3, 3), "v": draw(64, 70, 3, 3)}
    padded = {"pads": (1, 1, 1, 1)}
    nodes = [("Conv", ["x", "w"], ["a"], padded), ("Conv", ["a", "v"], ["y"], padded)]
    return graph(nodes, {"x": (2, 64, 40, 40)}, weights)


NETS: dict[str, Callable[[], Graph]] = {
    "product": product,
    "chain": chain,
    "bottleneck": bottleneck,
    "fire": lambda: fire(pool=True),
    "stem": stem,
    "mlp": mlp,
    "transformer": normalized_first,
}


@pytest.fixture(scope="module", params=NETS)
def compiled(request: pytest.FixtureRequest) -> tuple[Program, Image]:
    """A network, compiled for barriers so slow that every stack and sequence pays."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(borders, "barrier_cycles", lambda machine: 10**9)
        program = compile_graph(NETS[request.param](), "fp16", 16)
    return program, read_image(write_image(program.image), "prog.bin")


def at_once(live: Iterable[LiveRange]) -> Iterable[tuple[LiveRange, LiveRange]]:
    """Pairs of ranges that are alive at the same instruction."""
    return ((a, b) for a, b in combinations(live, 2) if a.begin < b.end and b.begin < a.end)


def test_ranges_that_are_alive_at_once_share_no_bytes(compiled: tuple[Program, Image]) -> None:
    program, image = compiled
    assert len(image.live) > 2
    for a, b in at_once(image.live):
        assert a.address + a.size <= b.address or b.address + b.size <= a.address, (a, b)
    most = max(sum(live.size for live in image.live if live.begin <= at < live.end) for at in image.nodes)
    assert 0 < most <= program.machine.spm.reserved <= program.machine.spm.bytes


def test_engines_touch_nothing_else(compiled: tuple[Program, Image]) -> None:
    """Every byte of the scratchpad that an instruction reads or writes belongs to one range."""
    program, image = compiled
    keep = Keep()
    loaded = emulator.Program(image, program.machine)
    loaded.run(random_inputs(program.graph, {}, 3), sinks=[keep])
    slices = keep.slices
    found = spm_accesses(slices, keep.ranges)
    assert len(found.row) > 100
    pcs = slices["pc"][found.row]
    distinct = {*zip(pcs.tolist(), found.first.tolist(), found.size.tolist(), strict=True)}
    for pc, first, size in distinct:
        owners = [live for live in image.live if live.begin <= pc < live.end]
        assert any(o.address <= first and first + size <= o.address + o.size for o in owners), hex(pc)


def test_constants_go_to_weights_and_other_data_do_not(compiled: tuple[Program, Image]) -> None:
    program, image = compiled
    keep = Keep()
    emulator.Program(image, program.machine).run(random_inputs(program.graph, {}, 3), sinks=[keep])
    loads = (keep.slices["track"] == Engine.RDMA) & (keep.slices["sources"] == 2)
    roles = {True: set[str](), False: set[str]()}
    for pc, ranges in zip(keep.slices["pc"][loads].tolist(), keep.ranges[loads], strict=True):
        (source, *_), (target, *_) = sorted(ranges[:2].tolist(), key=lambda each: each[2])
        owner = next(
            live
            for live in image.live
            if live.begin <= pc < live.end and live.address <= target < live.address + live.size
        )
        roles[is_constant(image, source)].add(owner.role)
    assert set() < roles[True] <= {"weights", "staging"}
    assert set() < roles[False] <= {"input", "staging"}


def is_constant(image: Image, place: int) -> bool:
    """Return True if the file has bytes for an address of DDR, as slices number them."""
    at = place - DDR
    for segment in image.segments:
        start = ddr_offset(segment.address, image.windows)
        assert start is not None
        if start <= at < start + len(segment.data):
            return True
    return False


def test_the_text_without_them_makes_the_same_program(compiled: tuple[Program, Image]) -> None:
    program, image = compiled
    lines = program.text.splitlines(keepends=True)
    bare = "".join(line for line in lines if not line.lstrip().startswith((".live", ".dead")))
    without = asm.assemble(bare, "prog.s", given={"prog.const": program.constants})
    assert without.segments == image.segments
    assert dict(without.symbols) == dict(image.symbols)
    assert len(without.live) == 0 < len(image.live)


# --- roles --------------------------------------------------------------------------------------


SOURCE, CONSTANT, TARGET = (DdrTensor(name, Format.FP32, (1 << 16,)) for name in ("x", "table", "y"))


def kernel() -> Kernel:
    return Kernel("p0", Target(16, 0x2F0000, Format.FP32), 0x2F0000)


def roles(k: Kernel) -> dict[str, str]:
    """Role of each buffer, by the name in the lowering."""
    k.place_buffers()
    uses = uses_of(k, {"table"})
    return {buffer.symbol.removeprefix("p0."): uses.role(buffer) for buffer in k.spm.placed}


def test_roles_of_a_phase() -> None:
    k = kernel()
    names = ("w", "x", "raw", "narrow", "ones", "sums", "y", "rows")
    w, x, raw, narrow, ones, sums, y, rows = (k.buffer(name, 256) for name in names)
    k.emit("rdma.fp32", dst=w, src=CONSTANT.at(0), n=64)
    k.emit("rdma.fp32", dst=raw, src=SOURCE.at(0), n=64)
    k.emit("td.gatherscatter", dst=x, src0=raw, n=256)
    k.emit("td.memset.fp32", dst=ones, value=1.0, n=64)
    k.emit("ct.mul.vv.fp32", dst=sums, src0=x, src1=w, n=64)
    k.emit("ct.add.vv.fp32", dst=y, src0=sums, src1=ones, n=64)
    k.emit("ct.square.v.fp32", dst=narrow, src0=y, n=64)
    k.emit("td.gatherscatter", dst=rows, src0=y, n=256)
    k.emit("wdma.fp32", dst=TARGET.at(0), src=rows, n=64)
    assert roles(k) == {
        "w": "weights",
        "x": "input",
        "raw": "staging",
        "narrow": "temporary",
        "ones": "weights",
        "sums": "temporary",
        "y": "output",
        "rows": "staging",
    }


def test_a_value_stays_for_another_node() -> None:
    k = kernel()
    x, a, b, c = (k.buffer(name, 256) for name in "xabc")
    k.emit("rdma.fp32", dst=x, src=SOURCE.at(0), n=64)
    with k.computing("first"):
        k.emit("ct.square.v.fp32", dst=a, src0=x, n=64)
        k.emit("ct.square.v.fp32", dst=b, src0=a, n=64)
    with k.computing("second"):
        k.emit("ct.square.v.fp32", dst=c, src0=b, n=64)
    assert roles(k) == {"x": "input", "a": "temporary", "b": "value", "c": "temporary"}


def test_what_other_tiles_send_and_get_is_an_exchange() -> None:
    k = kernel()
    part, whole, own, got = (k.buffer(name, 256) for name in ("part", "whole", "own", "got"))
    k.receive(whole)
    k.receive(got)
    k.emit("rdma.fp32", dst=part, src=CONSTANT.at(0), n=64)
    k.emit("dte.broadcast", dst=whole, src=part, tiles=0xFFFF, n=256)
    k.emit("ct.square.v.fp32", dst=own, src0=whole, n=64)
    k.emit("dte.broadcast", dst=got, src=own, tiles=0xFFFF, n=256)
    k.emit("ct.square.v.fp32", dst=own, src0=got, n=64)
    assert roles(k) == {"part": "staging", "whole": "weights", "own": "exchange", "got": "exchange"}


def test_addresses_in_registers_count() -> None:
    k = kernel()
    w = k.buffer("w", 512)
    address = k.let(w + k.tile * 16)
    k.emit("rdma.fp32", dst=address, src=CONSTANT.at(0), n=4)
    k.emit("ct.square.v.fp32", dst=w, src0=address, n=4)
    assert roles(k) == {"w": "weights"}
