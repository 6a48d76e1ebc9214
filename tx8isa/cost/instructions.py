"""Costs of engine instructions in time, from their meanings and the coefficients of a machine.

``cost(record, machine)`` returns for every record of an engine

* ``fixed``: ticks that every command takes, whatever its data;
* ``data``: a plain integer function for the ticks of its data phase. The engine is busy for both together;
* ``operations``: a function for the work, in operations as engines count them;
* ``moved``: a function for the bytes that a nest of loops reads, writes or both, without the gaps of its
  strides; None where the operands' extents already say so;
* ``runs``: a function for the number of contiguous runs of DDR, each of which costs time; None without DDR;
* ``exclusive``: True if the data phase uses the path that CT and TDMA share, so that one waits for the other.

A cycle has ``TICKS`` ticks: coefficients have fractions, and integer sums are the same on every host. A rate
is converted to the price of ``UNITS`` lines, bytes or steps in whole ticks; products with it are rounded
down.

The functions (``terms.py``) are plain Python over integers, so that compiled code calls them too;
``FUNCTIONS`` lists them. Their arguments are those of ``Extent``, or a tuple of 16 numbers from which the
instruction's format (its operand ``format``) selects one. Only the arguments depend on the machine.
``emulator.engines.tables.costs`` lays them out for compiled code.

``DdrPrices`` has the time that bytes and runs take of the DDR that all tiles share.

A simulation adds delays that other units cause. RDMA and WDMA times are those of a tile's engine. A copy
between tiles costs its latency and its bytes on one link, without hops and contention. ``ncc.wait`` and
``ncc.barrier`` cost their time without waits; ``dte.wait`` costs an instruction of the core.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tx8isa.families.nest import element_stream
from tx8isa.machine.description import Machine
from tx8isa.machine.timing import DmaTiming
from tx8isa.numbers.formats import Format
from tx8isa.records import meaning as m
from tx8isa.records.meaning import Action, Direction, Form
from tx8isa.records.record import Engine, Instruction, Work

from . import terms
from .rates import link_rate
from .terms import FUNCTIONS, UNITS

__all__ = ["FUNCTIONS", "TICKS", "UNITS", "Argument", "Cost", "Term", "cost", "evaluate", "evaluator"]

TICKS = 1000
"""Ticks of a cycle."""

SHARED_PATH = (Engine.CT, Engine.TDMA)
"""Engines whose data phases exclude each other (measured with fills; docs/timing.md)."""

Argument = str | int | tuple[int, ...]
FORMATS = 16
"""Length of an argument indexed by format: the number of format codes."""


@dataclass(frozen=True, slots=True)
class Term:
    """A function of operands, and its arguments (see the module)."""

    function: Callable[..., int]
    arguments: tuple[Argument, ...]


@dataclass(frozen=True, slots=True)
class Cost:
    """Time and work of one record's instructions; ``fixed`` in ticks."""

    fixed: int
    data: Term
    operations: Term
    moved: Term | None
    runs: Term | None
    exclusive: bool


# --- the families ---------------------------------------------------------------------------

_NOTHING = Term(terms.nothing, ())
_SOURCE = tuple(f"shape.{lane}" for lane in "nhwc")
_RESULT = tuple(f"dst_shape.{lane}" for lane in "nhwc")
_WINDOW = ("window.kx", "window.ky")
_GEOMETRY = ("shape", "pad", "window", "dilation", "unpad", *_WINDOW, "dst_shape.w", "shape.c")


def cost(record: Instruction, machine: Machine) -> Cost:
    """Time and work of a record's instructions on a machine."""
    fixed, data, operations = _FAMILIES[type(record.meaning)](record, machine)
    return Cost(fixed, data, operations, _moved(record), _runs(record), record.engine in SHARED_PATH)


@dataclass(frozen=True, slots=True)
class DdrPrices:
    """Prices of the shared DDR in ticks: of ``UNITS`` bytes, and of a contiguous run whatever its length."""

    byte: int
    run: int

    def ticks(self, size: int, runs: int) -> int:
        """Return the ticks of DDR for ``size`` bytes in ``runs`` runs."""
        return terms.ddr_ticks(size, runs, self.byte, self.run)


def ddr_prices(machine: Machine) -> DdrPrices:
    """The prices of the machine's DDR."""
    rate = machine.ddr.nominal.value / machine.engines.clock.value
    return DdrPrices(price(rate), ticks(machine.timing.ddr.run.value))


_Terms = tuple[int, Term, Term]


def ticks(cycles: float) -> int:
    """Convert cycles to the nearest number of ticks."""
    return round(cycles * TICKS)


def price(rate: float, unit: float = 1.0) -> int:
    """Return the ticks of ``UNITS`` pieces of ``unit`` elements (or bytes) at ``rate`` of them a cycle."""
    return max(round(UNITS * TICKS * unit / rate), 1)


def line_bytes(machine: Machine) -> int:
    """Bytes that an engine's path to the scratchpad moves in a cycle."""
    return max(round(machine.spm.engine_rate.value), 1)


def _line_prices(machine: Machine, work: float) -> dict[Format, int]:
    """Prices of lines of the vector engine by element format."""
    rates, line = machine.timing.ct.rates, 8 * line_bytes(machine)
    return {
        fmt: price(getattr(rates, fmt.token).value, work * line / fmt.bits)
        for fmt in Format
        if hasattr(rates, fmt.token)
    }


def _by_format(prices: dict[Format, int]) -> tuple[int, ...]:
    """Make the argument with the price of each format code, 0 for codes that no record has."""
    known = {int(fmt): value for fmt, value in prices.items()}
    return tuple(known.get(code, 0) for code in range(FORMATS))


def _addresses(record: Instruction, most: int) -> tuple[Argument, ...]:
    """Return ``most`` address operands, with 0 for missing ones."""
    names: list[Argument] = [operand.name for operand in record.operands if operand.is_address]
    return (*names, *([0] * (most - len(names))))


def _work(record: Instruction, machine: Machine) -> float:
    """Return the time of a CT record's work as a multiple of arithmetic's time."""
    work, kind = machine.timing.ct.work, record.meaning
    if record.work is not Work.ARITHMETIC:
        return float(getattr(work, record.work.value).value)
    found = _SLOWNESS.get(type(kind))
    return float(getattr(work, found).value) if found else 1.0


_SLOWNESS: dict[type, str] = {
    m.Convert: "conversion",
    m.Unpack: "conversion",
    m.Split: "conversion",
    m.MaskedCopy: "lookup",
    m.Gather: "lookup",
    m.Compress: "lookup",
    m.CountNonZero: "reduction",
    m.CountBits: "reduction",
    m.Extreme: "reduction",
    m.Reduce: "reduction",
    m.Pool: "window",
    m.Unpool: "window",
    m.Resize: "interpolation",
    m.Uniform: "random",
    m.Dropout: "random",
}
"""Coefficient of ``timing.ct.work`` by meaning; other meanings cost as arithmetic."""


def _own_format(record: Instruction) -> Format | None:
    """The widest format of a vector record without a format suffix; None if it has one."""
    if record.formats:
        return None
    kind = record.meaning
    if isinstance(kind, m.Convert):
        return max(kind.source, kind.target, key=lambda fmt: fmt.bits)
    if isinstance(kind, m.Gather):
        return Format.INT16 if kind.bits == 16 else Format.INT32
    return Format.FP32 if isinstance(kind, m.Split) else Format.BOOL


def _vector(record: Instruction, machine: Machine) -> _Terms:
    fixed, path = machine.timing.ct.fixed.value, line_bytes(machine)
    prices, own = _line_prices(machine, _work(record, machine)), _own_format(record)
    count = "full" if getattr(record.meaning, "form", None) is Form.VUV_LOOP else "n"
    width = ("@format", count, _by_format(prices)) if own is None else (own.bits, count, prices[own])
    more = ticks(machine.timing.ct.misaligned.value)
    data = Term(terms.vector_ticks, (*width, path, more, *_addresses(record, 5)))
    return ticks(fixed), data, Term(terms.elements, (count,))


def _tensor(record: Instruction, machine: Machine) -> _Terms:
    """Cost by tensor: the one that reductions read, else the result, which pools multiply by the window."""
    fixed, path = machine.timing.ct.fixed.value, line_bytes(machine)
    prices = _by_format(_line_prices(machine, _work(record, machine)))
    places: tuple[Argument, ...] = _WINDOW if isinstance(record.meaning, m.Pool) else (1, 1)
    shape = _SOURCE if isinstance(record.meaning, m.Reduce) else _RESULT
    more = ticks(machine.timing.ct.misaligned.value)
    data = Term(terms.tensor_ticks, ("@format", *shape, *places, prices, path, more, *_addresses(record, 3)))
    return ticks(fixed), data, Term(terms.tensor_elements, (*shape, *places))


_NE_FORMATS = (Format.INT8, Format.FP16, Format.BF16, Format.TF32)


def rows_at_once(machine: Machine) -> int:
    """Return the rows that one block of weights serves at a time, in all arrays of the matrix engine."""
    return max(round(machine.engines.ne_array.m * machine.timing.ne.steps.value), 1)


def _array(machine: Machine) -> tuple[Argument, ...]:
    """Return rows at once, extents of a block of weights, and prices by format, which follow the peaks."""
    timing, peaks, step = machine.timing.ne, machine.engines.ne, machine.engines.ne_array
    rows = rows_at_once(machine)
    rate = timing.steps.value * step.m / rows * timing.efficiency.value / peaks.fp16.value
    prices = {fmt: price(rate * getattr(peaks, fmt.token).value) for fmt in _NE_FORMATS}
    wide = round(UNITS * timing.efficiency.value / timing.efficiency_wide.value)
    of_sums = ("@format", "@out_format", "inpsum_en", "@psum_format")
    return rows, step.k, step.n, _by_format(prices), price(timing.weights.value), wide, *of_sums


def _matrix(record: Instruction, machine: Machine) -> _Terms:
    extents = ("lb", "rb", "m", "k", "n")
    data = Term(terms.gemm_ticks, (*extents, *_array(machine)))
    return ticks(machine.timing.ne.fixed.value), data, Term(terms.gemm_operations, extents)


def _convolution(record: Instruction, machine: Machine) -> _Terms:
    fixed, array = ticks(machine.timing.ne.fixed.value), _array(machine)
    if record.meaning.direction is Direction.BACKWARD:
        return (
            fixed,
            Term(terms.gradient_ticks, (*_GEOMETRY, *array)),
            Term(terms.gradient_operations, _GEOMETRY),
        )
    if record.meaning.direction is Direction.DEPTHWISE:
        places = (*_RESULT, *_WINDOW)
        return (
            fixed,
            Term(terms.depthwise_ticks, (*places, *array)),
            Term(terms.convolution_operations, (*places, 1)),
        )
    places = (*_RESULT, *_WINDOW, "shape.c")
    return fixed, Term(terms.convolution_ticks, (*places, *array)), Term(terms.convolution_operations, places)


def _nest_operands(side: str) -> tuple[str, ...]:
    """Names of a nest's strides and trip counts in the records."""
    return tuple(f"{side}{kind}{level}" for level in range(3) for kind in ("stride", "iter"))


def _dma(record: Instruction, machine: Machine) -> _Terms:
    timing: DmaTiming = machine.timing.rdma if record.engine is Engine.RDMA else machine.timing.wdma
    rest = (price(timing.rate.value), ticks(timing.run.value))
    data = Term(terms.dma_ticks, ("@format", "n", *_nest_operands(""), *rest))
    return ticks(timing.fixed.value), data, _NOTHING


def _moved(record: Instruction) -> Term | None:
    """Bytes of all blocks of a nest; if a record has two sides, their bytes are equal."""
    if not isinstance(record.meaning, m.Load | m.Store | m.Nest | m.Fill):
        return None
    side = "dst_" if isinstance(record.meaning, m.Nest) else ""
    bits: Argument = "@format" if record.formats else 8
    return Term(element_stream, (bits, "n", *(f"{side}iter{level}" for level in range(3))))


def _runs(record: Instruction) -> Term | None:
    """Contiguous runs of a nest in DDR."""
    if not isinstance(record.meaning, m.Load | m.Store):
        return None
    return Term(terms.ddr_runs, ("@format", "n", *_nest_operands("")))


def _transfers(machine: Machine) -> tuple[int, int, int]:
    """Return ticks of TDMA for a row, the least ticks for a block, and the price of bytes."""
    timing = machine.timing.tdma
    return ticks(timing.row.value), ticks(timing.transfer.value), price(timing.rate.value)


def _nest(record: Instruction, machine: Machine) -> _Terms:
    trips = tuple(f"{side}iter{level}" for side in ("src_", "dst_") for level in range(3))
    return _tdma(machine, Term(terms.nest_ticks, ("n", *trips, *_transfers(machine))))


def _move(record: Instruction, machine: Machine) -> _Terms:
    """Cost of a move; a block is the channels of a position if they stay together, else an element."""
    n, h, w, c = _RESULT
    together = (
        record.meaning.source(0, 0, 0, 1, 2, 3, 5, 7) == record.meaning.source(0, 0, 0, 0, 2, 3, 5, 7) + 1
    )
    block: tuple[Argument, Argument] = (c, 1) if together else (1, c)
    return _tdma(machine, Term(terms.move_ticks, ("@format", n, h, w, *block, *_transfers(machine))))


def _unfold(record: Instruction, machine: Machine) -> _Terms:
    return _tdma(machine, Term(terms.unfold_ticks, ("@format", *_RESULT, *_transfers(machine))))


def _tdma(machine: Machine, data: Term) -> _Terms:
    return ticks(machine.timing.tdma.fixed.value), data, _NOTHING


def _fill(record: Instruction, machine: Machine) -> _Terms:
    timing, line = machine.timing.tdma, line_bytes(machine)
    data = Term(
        terms.fill_ticks, ("@format", "n", *_nest_operands(""), price(timing.fill_rate.value, line), line)
    )
    return ticks(timing.fill_fixed.value), data, _NOTHING


def _scalar(record: Instruction, machine: Machine) -> _Terms:
    return ticks(machine.timing.scalar.fixed.value), _NOTHING, _NOTHING


def _control(record: Instruction, machine: Machine) -> _Terms:
    timing, action = machine.timing, record.meaning.action
    if action is Action.WAIT:
        return ticks(timing.core.join.value + timing.core.join_worker.value), _NOTHING, _NOTHING
    if action is Action.BARRIER:
        return ticks(timing.barrier.fixed.value), _NOTHING, _NOTHING
    if action is Action.SEND_WAIT:
        return ticks(timing.core.instruction.value), _NOTHING, _NOTHING
    link = price(link_rate(machine))
    if action is Action.SCATTER:
        data = Term(terms.scatter_ticks, ("n", "tiles", link))
    else:
        trips: list[Argument] = [o.name for o in record.operands if "iter" in o.name]
        data = Term(terms.copy_ticks, ("n", *trips, *([1] * (3 - len(trips))), link))
    return ticks(timing.dte.fixed.value), data, _NOTHING


_FAMILIES: dict[type, Callable[[Instruction, Machine], _Terms]] = {
    **dict.fromkeys(
        (
            m.Elementwise,
            m.Relation,
            m.Bitwise,
            m.Convert,
            m.Unpack,
            m.MaskedCopy,
            m.Gather,
            m.Compress,
            m.CountNonZero,
            m.CountBits,
            m.Extreme,
            m.Split,
            m.Uniform,
            m.Dropout,
        ),
        _vector,
    ),
    **dict.fromkeys((m.Reduce, m.Pool, m.Unpool, m.Resize, m.Join), _tensor),
    m.Matrix: _matrix,
    m.Convolution: _convolution,
    m.Load: _dma,
    m.Store: _dma,
    m.Nest: _nest,
    m.Move: _move,
    m.Unfold: _unfold,
    m.Fill: _fill,
    m.ScalarFunction: _scalar,
    m.Control: _control,
}


def evaluator(term: Term, record: Instruction) -> Callable[[Sequence[int]], int]:
    """Compile a term to a function of operand values in the order of the record, for repeated evaluation."""
    from tx8isa.table.encoding import argument_readers

    function, readers = term.function, argument_readers(record, term.arguments)
    return lambda values: int(function(*[read(values) for read in readers]))


def evaluate(term: Term, record: Instruction, values: Sequence[int]) -> int:
    """Evaluate a term for operand values in the order of the record."""
    return evaluator(term, record)(values)
