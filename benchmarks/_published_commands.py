"""Prices of the commands of published programs, from their counts and shapes: no program runs here."""

from __future__ import annotations

from collections.abc import Callable

import asm
from tx8isa.cost.instructions import TICKS, cost, ddr_prices, evaluate
from tx8isa.machine.description import Machine
from tx8isa.table import encoding

_DDR = 0x2_8000_0000
Figure = Callable[[Machine], float]
"""The cycles that a machine's figures give for some commands."""


def priced(machine: Machine, text: str, tiles: int = 1) -> float:
    """Cycles for which a command keeps its engine busy while ``tiles`` tiles execute the same command."""
    data = next(s.data for s in asm.assemble(text).segments if s.section == ".text")
    decoded = encoding.decode(data)
    assert isinstance(decoded, encoding.DecodedInstruction)
    record, values = decoded.instruction, decoded.values
    found = cost(record, machine)
    ticks = evaluate(found.data, record, values)
    if found.runs is not None and found.moved is not None:
        runs, moved = (evaluate(term, record, values) for term in (found.runs, found.moved))
        ticks = max(ticks, tiles * ddr_prices(machine).ticks(moved, runs))
    return (found.fixed + ticks) / TICKS


def commands(*counted: tuple[int, str], tiles: int = 1, per: int = 1) -> Figure:
    """All commands of a list of (count, command) together, for each of ``per`` pieces."""
    return lambda machine: sum(count * priced(machine, text, tiles) for count, text in counted) / per


def product(m: int, k: int, n: int, sums: str = "bf16") -> str:
    return f"ne.gemm.bf16 a=0, b=0x40000, out=0x100000, m={m}, k={k}, n={n}, out_format={sums}"


def load(size: int, rows: int = 1, stride: int = 0, store: bool = False) -> str:
    """Loads of ``rows`` rows of ``size`` bytes in DDR, ``stride`` bytes apart."""
    loops = f", stride0={stride // 2}, iter0={rows}" if rows > 1 else ""
    ends = f"dst={_DDR}, src=0" if store else f"dst=0, src={_DDR}"
    return f"{'wdma' if store else 'rdma'}.bf16 {ends}, n={size // 2}{loops}"


BLOCK = 256 * 256
"""Scores of a block of attention."""
BLOCKS, MASKS = 72, 16
"""Blocks of the busiest tile, and those of them that are masked."""


_TDMA_OF_ATTENTION, _OTHERS_OF_GEMM = 0.89e6, 1.21e6 + 0.07e6
"""Cycles for which engines were busy with commands that are not published."""


def attention_passes() -> Figure:
    """Six passes over the scores of a block, half a pass over its result, and one more pass for each mask."""
    at, to, n = "src0=0", "dst=0x100000", f"n={BLOCK}"
    shape = "shape=[1,1,256,256], dims=c"
    passes = (
        f"ct.mul.vs.fp32 {to}, {at}, src1=0.5, {n}",
        f"ct.reduce.max.fp32 {to}, {at}, {shape}",
        f"ct.sub.vv.fp32 {to}, {at}, src1=0x40000, {n}",
        f"ct.exp_lp.v.fp32 {to}, {at}, {n}",
        f"ct.reduce.sum.fp32 {to}, {at}, {shape}",
        f"ct.cvt.fp32.bf16 {to}, {at}, {n}",
        f"ct.mul.vs.fp32 {to}, {at}, src1=0.5, n={BLOCK // 2}",
    )
    mask = f"ct.add.vv.fp32 {to}, {at}, src1=0x40000, {n}"
    return commands(*((BLOCKS, text) for text in passes), (MASKS, mask))


def fewer(count: int, text: str, instead: str) -> Figure:
    """Cycles that a program saves when ``count`` of its commands are replaced."""
    return lambda machine: count * (priced(machine, text) - priced(machine, instead))


def transfers(count: int) -> Figure:
    """Cycles that the TDMA spends on so many transfers of 4 bytes, without the command and its rows."""

    def command(inner: int) -> str:
        trips = f"src_iter0={inner}, dst_iter0={inner}"
        return f"td.gatherscatter dst=0x100000, src0=0, n=4, {trips}, dst_stride0=4"

    return lambda machine: count * (priced(machine, command(4096)) - priced(machine, command(2048))) / 2048


def attention_engines() -> Figure:
    """The commands of an attention on all engines; TDMA has its published busy time, because its commands are
    unknown."""
    scores, values = product(256, 128, 256, "fp32"), product(256, 256, 128, "fp32")
    known = commands(
        (BLOCKS, scores), (BLOCKS, values), (2 * BLOCKS + 14, load(65536)), (14, load(65536, store=True))
    )
    passes = attention_passes()
    return lambda machine: known(machine) + passes(machine) + _TDMA_OF_ATTENTION


def gemm_engines() -> Figure:
    """The commands of a GEMM of 4096 on all engines; TDMA and CT have their published busy times."""
    known = commands(
        (64, product(256, 512, 512, "fp32")),
        (64, load(1024, 256, 8192)),
        (64, load(1024, 512, 8192)),
        (1, load(1024, 2048, 8192, store=True)),
    )
    return lambda machine: known(machine) + _OTHERS_OF_GEMM


def submission(engine: str) -> Figure:
    return lambda machine: machine.timing.issue.of(engine).value


def runtime_call(machine: Machine) -> float:
    return machine.timing.issue.c_runtime.value
