"""Proofs about the tables: every word of 16 or 32 bits is the manual's instruction, or none."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from every_path import explore, truth
from record_proofs import legal_values, operand_values, same_values
from riscv_compressed_manual import SHORT
from riscv_manual import ARITHMETIC, ENTRIES, IMMEDIATE
from solver import z3
from symbolic_integers import Bits
from tx8isa.riscv.format import Scalar
from tx8isa.table import compressed as rvc

Decode = Callable[[Any], Any]


def words(size: int, fixed: int) -> Iterator[tuple[int, Any]]:
    """Yield (value, word) for every value of the bits in the mask ``fixed``; the other bits are symbolic."""
    places = [at for at in range(size) if fixed >> at & 1]
    for number in range(1 << len(places)):
        value = sum((number >> i & 1) << at for i, at in enumerate(places))
        parts = [
            z3.BitVecVal(value >> at & 1, 1) if fixed >> at & 1 else z3.BitVec(f"bit{at}", 1)
            for at in reversed(range(size))
        ]
        yield value, z3.simplify(z3.Concat(*parts))


def prove_table(decode: Decode, opcode: int) -> None:
    """Check ``decode`` of the 32-bit words with ``opcode`` in bits 6:2: the manual's instructions and no
    others."""
    for value, word in words(32, 0x707F):
        if value & 3 == 3 and value >> 2 & 31 == opcode:
            entries = {name: entry.matches(word) for name, entry in ENTRIES.items()}
            for path in explore(lambda word=word: decode(Bits.unsigned(word))):
                if path.result is None:
                    path.prove(z3.Not(z3.Or(*entries.values())), f"no instruction, key {value:#x}")
                else:
                    record, values = path.result
                    due = operand_values(ENTRIES[record.mnemonic].operands(word))
                    claim = z3.And(entries[record.mnemonic], same_values(values, due))
                    path.prove(claim, f"{record.mnemonic}, key {value:#x}")


def prove_compressed_table(decode: Decode, expand: Decode) -> None:
    """Check ``decode`` and ``expand`` of 16 bits: the manual's instructions and expansions, and no others."""
    for value, word in words(16, 0xE003):
        entries = {name: entry.matches(word) for name, entry in SHORT.items()}
        symbolic = Bits.unsigned(word)
        for path in explore(lambda c=symbolic: (decode(c), expand(c))):
            found, full = path.result
            if found is None or full is None:
                claim = z3.And(found is full, z3.Not(z3.Or(*entries.values())))
                path.prove(claim, f"no compressed instruction, key {value:#x}")
                continue
            name = found[0].mnemonic
            due = operand_values(SHORT[name].operands(word))
            same = z3.And(full[0].mnemonic == SHORT[name].expansion, same_values(full[1], due))
            path.prove(z3.And(entries[name], same), f"{name}, key {value:#x}")


def prove_shortening(record: Scalar) -> None:
    """Assert that the assembler's short form of a full instruction expands to it, or to an equivalent one."""
    values, ways = legal_values(record)
    legal = z3.Or(*(z3.And(*way.conditions) for way in ways))
    for way in explore(lambda: rvc.shorten(record, values), legal):
        if way.result is None:
            continue
        short = Bits.of(way.result)
        key = z3.simplify(short.low(16) & 0xE003)
        assert z3.is_bv_value(key), f"{record.mnemonic}: the opcode of its short form depends on operands"
        word = _with_key(short, key.as_long())
        for path in explore(lambda word=word: rvc.expand(word), *way.conditions):
            path.prove(truth(word == short), f"{record.mnemonic}: its short form has 16 bits")
            claim = z3.BoolVal(False) if path.result is None else same_effect((record, values), path.result)
            path.prove(claim, f"{record.mnemonic}: its short form")


def same_effect(first: tuple[Scalar, dict[str, Any]], second: tuple[Scalar, dict[str, Any]]) -> Any:
    """Return the condition that two instructions are equal, or write the same number to the same register."""
    if first[0] is second[0]:
        same = same_values(first[1], second[1])
        if first[0].mnemonic not in ARITHMETIC:
            return same
    else:
        same = z3.BoolVal(False)
    if not all(
        record.mnemonic in ARITHMETIC or record.mnemonic in IMMEDIATE for record, _ in (first, second)
    ):
        return same
    registers = z3.Array("registers", z3.BitVecSort(5), z3.BitVecSort(64))
    numbers = [_written(record.mnemonic, values, registers) for record, values in (first, second)]
    rds = [Bits.of(values["rd"]) for _, values in (first, second)]
    return z3.Or(same, z3.And(truth(rds[0] == rds[1]), numbers[0] == numbers[1]))


def _written(mnemonic: str, values: dict[str, Any], registers: Any) -> Any:
    """Return the manual's result in rd; x0 is 0."""

    def read(name: str) -> Any:
        number = Bits.of(values[name]).low(5)
        return z3.If(number == 0, z3.BitVecVal(0, 64), registers[number])

    given = next((Bits.of(values[name]).low(64) for name in ("imm", "shamt") if name in values), None)
    return ARITHMETIC[IMMEDIATE.get(mnemonic, mnemonic)](read("rs1"), read("rs2") if given is None else given)


def _with_key(word: Bits, key: int) -> Bits:
    """The same 16 bits, the bits of the key written out."""
    low = word.low(16)
    parts = [
        z3.BitVecVal(key >> at & 1, 1) if 0xE003 >> at & 1 else z3.Extract(at, at, low)
        for at in reversed(range(16))
    ]
    return Bits.unsigned(z3.Concat(*parts))
