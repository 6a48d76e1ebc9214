"""Ticks and bytes of one engine instruction, computed from the costs of its record."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from compiler.codegen.expr import lanes
from compiler.codegen.tree import Argument, Issue
from tx8isa.cost.instructions import Cost, cost, ddr_prices, evaluate
from tx8isa.cost.terms import run_bytes
from tx8isa.machine.description import Machine
from tx8isa.records.record import Engine, Instruction, Operand
from tx8isa.table.encoding import argument_values
from tx8isa.table.registry import find

from .values import Registers, in_scratchpad, value_of

_SIDES = ("", "src_", "dst_")
_COPY_OPERANDS = (
    "n",
    "tiles",
    *(f"{side}{kind}{level}" for side in _SIDES for kind in ("iter", "stride") for level in range(3)),
)


class Price(NamedTuple):
    """The price of one instruction: ticks of its engine, DDR traffic, and what leaves the tile by the mesh.

    ``ddr_ticks`` are those of the card's DDR for its bytes and runs. ``target_bytes``: what each of the tiles
    gets that a copy goes to. ``lengths`` has the bytes of the
    scratchpad that each address operand touches, in the order of operands.
    """

    ticks: int
    ddr_bytes: int
    ddr_ticks: int
    link_bytes: int
    target_bytes: int = 0
    lengths: tuple[int, ...] = ()


class Pricing:
    """Prices on one machine. Every price is computed once and then looked up."""

    def __init__(self, machine: Machine) -> None:
        self._machine, self._ddr = machine, ddr_prices(machine)
        self._costs: dict[str, tuple[Cost, tuple[int, ...], int]] = {}
        self._known: dict[tuple[str, bool, tuple[int, ...]], Price] = {}

    def price(self, issue: Issue, registers: Registers) -> Price:
        """The price of an instruction for these values of the registers."""
        _, needed, fmt = self._cost(issue)
        values = [0] * len(issue.record.operands)
        for index in needed:
            operand = issue.record.operands[index]
            given = issue.arguments.get(operand.name, operand.default)
            values[index] = fmt if operand.name == "format" else _number(operand, given, fmt, registers)
        from_ddr = issue.record.engine is Engine.DTE and _reads_ddr(issue)
        key = (issue.mnemonic, from_ddr, tuple(values))
        if key not in self._known:
            self._known[key] = self._priced(issue, from_ddr, key[2])
        return self._known[key]

    def _cost(self, issue: Issue) -> tuple[Cost, tuple[int, ...], int]:
        """The costs of a mnemonic, the indices of the operands they depend on, and the code of its format."""
        if issue.mnemonic not in self._costs:
            found = find(issue.mnemonic)
            assert found is not None
            of_record = cost(issue.record, self._machine)
            fmt = int(found[1]) if found[1] is not None else 0
            self._costs[issue.mnemonic] = (of_record, _operands(issue.record, of_record), fmt)
        return self._costs[issue.mnemonic]

    def _priced(self, issue: Issue, from_ddr: bool, values: tuple[int, ...]) -> Price:
        record, of_record = issue.record, self._cost(issue)[0]
        if record.engine is Engine.DTE:
            each, targets = _sent(record, values)
            sent = each * targets
            moved = sent if from_ddr else 0
            ticks = self._ddr.ticks(sent, _runs_sent(record, values)) if from_ddr else 0
            return Price(of_record.fixed, moved, ticks, sent, each)
        ticks = of_record.fixed + evaluate(of_record.data, record, values)
        moved = runs = 0
        if of_record.runs is not None and of_record.moved is not None:
            moved = evaluate(of_record.moved, record, values)
            runs = evaluate(of_record.runs, record, values)
        return Price(ticks, moved, self._ddr.ticks(moved, runs), 0, 0, _lengths(record, values))


def scratchpad_operands(record: Instruction) -> Iterator[Operand]:
    """The operands that are addresses in the scratchpad."""
    return (operand for operand in record.operands if operand.memory == "spm")


def _lengths(record: Instruction, values: tuple[int, ...]) -> tuple[int, ...]:
    extents = (operand.extent for operand in scratchpad_operands(record))
    return tuple(
        int(extent.length(*argument_values(record, extent.arguments, values)))
        for extent in extents
        if extent is not None
    )


def _operands(record: Instruction, of_record: Cost) -> tuple[int, ...]:
    """The indices of the operands that the costs depend on."""
    names = set(_COPY_OPERANDS) if record.engine is Engine.DTE else set()
    for term in (of_record.data, of_record.moved, of_record.runs):
        names |= _names(term.arguments) if term is not None else set()
    for operand in scratchpad_operands(record):
        names |= _names(operand.extent.arguments) if operand.extent is not None else set()
    return tuple(index for index, operand in enumerate(record.operands) if operand.name in names)


def _names(arguments: Sequence[object]) -> set[str]:
    """The operands that arguments of a term or an extent refer to."""
    found = {text.removeprefix("@").partition(".")[0] for text in arguments if isinstance(text, str)}
    return found | ({"format"} if any(isinstance(a, tuple) for a in arguments) else set())


def _number(operand: Operand, given: Argument | None, fmt: int, registers: Registers) -> int:
    """The value of an operand. A string is the name of a choice, or ``format`` for the format's code."""
    if isinstance(given, list):
        return value_of(lanes(given), registers)
    if isinstance(given, str):
        return fmt if given == "format" else dict(operand.choices).get(given, 0)
    return 0 if given is None or isinstance(given, float) else value_of(given, registers)


def _sent(record: Instruction, values: tuple[int, ...]) -> tuple[int, int]:
    """Bytes that a copy between tiles sends to each of its targets, and how many these are."""
    named = {operand.name: value for operand, value in zip(record.operands, values, strict=True)}
    count = named.get("n", 0)
    for name, value in named.items():
        if "iter" in name:
            count *= value
    return count, named["tiles"].bit_count() if "tiles" in named else 1


def _runs_sent(record: Instruction, values: tuple[int, ...]) -> int:
    """Contiguous runs that a copy between tiles reads from DDR, once for each of its targets."""
    named = {operand.name: value for operand, value in zip(record.operands, values, strict=True)}
    nest = [
        named.get(f"src_{kind}{level}", kind == "iter") for level in range(3) for kind in ("stride", "iter")
    ]
    run = run_bytes(named.get("n", 0), *nest)
    return _sent(record, values) // max(run, 1)


def _reads_ddr(issue: Issue) -> bool:
    return "src" in issue.arguments and not in_scratchpad(issue.arguments["src"])
