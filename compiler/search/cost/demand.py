"""The demand of one engine instruction on any machine: bytes and runs of DDR, bytes of the scratchpad."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache

from tx8isa.cost.instructions import Cost, Term, cost, evaluator
from tx8isa.cost.terms import run_bytes
from tx8isa.machine.description import load_machine
from tx8isa.records.record import Engine, Extent, Instruction, Operand
from tx8isa.table.encoding import argument_readers, encoder
from tx8isa.table.registry import find

_SIDES = ("", "src_", "dst_")
_COPY_OPERANDS = (
    "n",
    "tiles",
    *(f"{side}{kind}{level}" for side in _SIDES for kind in ("iter", "stride") for level in range(3)),
)
_WORD_BYTES = 4
_MOST = 1 << 16
"""Most demands in the cache."""

_Values = Sequence[int]
Evaluator = Callable[[_Values], int]
"""Computes a number from the values of the operands."""


@dataclass(frozen=True, eq=False, slots=True)
class Demand:
    """The demand of one instruction; equal only to itself, which makes look-ups fast.

    ``values`` are those of the operands in the order of the record, 0 for operands without influence.
    ``ddr_bytes`` in ``ddr_runs`` contiguous runs go from and to DDR. ``link_bytes`` leave the tile by the
    mesh, ``target_bytes`` for each receiving tile. ``lengths`` has the bytes of the scratchpad that each
    address operand touches.
    """

    mnemonic: str
    values: tuple[int, ...]
    ddr_bytes: int
    ddr_runs: int
    link_bytes: int = 0
    target_bytes: int = 0
    lengths: tuple[int, ...] = ()


@dataclass(frozen=True, eq=False, slots=True)
class Form:
    """Properties that all instructions of a mnemonic share.

    ``needed`` are the indices of the operands that decide costs and extents, by their names; ``defaults`` has
    the values of operands that the text omits. ``in_scratchpad`` are the operands that are addresses there,
    and ``lengths`` computes their extents in bytes.
    """

    record: Instruction
    format_code: int
    needed: dict[str, int]
    defaults: tuple[int, ...]
    in_scratchpad: tuple[Operand, ...]
    lengths: tuple[Evaluator, ...]
    moved: Evaluator | None
    runs: Evaluator | None
    size: int
    """Bytes of the instruction's code."""


@cache
def form_of(mnemonic: str) -> Form:
    """The form of a mnemonic, which may have the suffix of a format."""
    found = find(mnemonic)
    assert found is not None
    record, fmt = found
    code = int(fmt) if fmt is not None else 0
    of_record = cost(record, load_machine(None))  # the operands are the same on every machine
    needed = _needed(record, of_record)
    moving = of_record.moved is not None and of_record.runs is not None
    return Form(
        record,
        code,
        needed,
        tuple(_default(operand, code) if operand.name in needed else 0 for operand in record.operands),
        tuple(operand for operand in record.operands if operand.memory == "spm"),
        tuple(_lengths(record)),
        _function(of_record.moved, record) if moving else None,
        _function(of_record.runs, record) if moving else None,
        _WORD_BYTES * encoder(record).length,
    )


def _default(operand: Operand, format_code: int) -> int:
    """The value of an operand that the text omits."""
    given = format_code if operand.name == "format" else operand.default
    return choice(operand, given, format_code) if isinstance(given, str) else given or 0


def choice(operand: Operand, name: str, format_code: int) -> int:
    """The value of a choice by its name, or ``format`` for the format of the instruction."""
    return format_code if name == "format" else dict(operand.choices).get(name, 0)


def _function(term: Term | None, record: Instruction) -> Evaluator | None:
    return None if term is None else evaluator(term, record)


def _lengths(record: Instruction) -> Iterator[Evaluator]:
    """For each address in the scratchpad, the function that computes its extent in bytes."""
    for operand in record.operands:
        if operand.memory == "spm" and operand.extent is not None:
            yield _length(operand.extent, record)


def _length(extent: Extent, record: Instruction) -> Evaluator:
    readers = argument_readers(record, extent.arguments)
    return lambda values: int(extent.length(*[read(values) for read in readers]))


def _needed(record: Instruction, of_record: Cost) -> dict[str, int]:
    names = set(_COPY_OPERANDS) if record.engine is Engine.DTE else set()
    for term in (of_record.data, of_record.moved, of_record.runs):
        names |= _names(term.arguments) if term is not None else set()
    for operand in record.operands:
        if operand.memory == "spm" and operand.extent is not None:
            names |= _names(operand.extent.arguments)
    return {operand.name: index for index, operand in enumerate(record.operands) if operand.name in names}


def _names(arguments: Sequence[object]) -> set[str]:
    """The operands to which arguments of a term or an extent refer."""
    found = {text.removeprefix("@").partition(".")[0] for text in arguments if isinstance(text, str)}
    return found | ({"format"} if any(isinstance(a, tuple) for a in arguments) else set())


@lru_cache(maxsize=_MOST)
def demand_of(mnemonic: str, from_ddr: bool, values: tuple[int, ...]) -> Demand:
    """The demand of an instruction with these values of its needed operands.

    ``from_ddr``: whether a copy between tiles reads DDR.
    """
    form = form_of(mnemonic)
    if form.record.engine is Engine.DTE:
        each, targets = _sent(form.record, values)
        sent = each * targets
        moved, runs = (sent, _runs_sent(form.record, values)) if from_ddr else (0, 0)
        return Demand(mnemonic, values, moved, runs, sent, each)
    moved = form.moved(values) if form.moved is not None else 0
    runs = form.runs(values) if form.runs is not None else 0
    return Demand(mnemonic, values, moved, runs, 0, 0, tuple(length(values) for length in form.lengths))


def _sent(record: Instruction, values: _Values) -> tuple[int, int]:
    """Bytes that a copy between tiles sends to each of its targets, and the number of targets."""
    named = {operand.name: value for operand, value in zip(record.operands, values, strict=True)}
    count = named.get("n", 0)
    for name, value in named.items():
        if "iter" in name:
            count *= value
    return count, named["tiles"].bit_count() if "tiles" in named else 1


def _runs_sent(record: Instruction, values: _Values) -> int:
    """Contiguous runs that a copy between tiles reads from DDR, once for each of its targets."""
    named = {operand.name: value for operand, value in zip(record.operands, values, strict=True)}
    nest = [
        named.get(f"src_{kind}{level}", kind == "iter") for level in range(3) for kind in ("stride", "iter")
    ]
    run = run_bytes(named.get("n", 0), *nest)
    each, targets = _sent(record, values)
    return each * targets // max(run, 1)
