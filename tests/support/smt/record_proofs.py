"""Proofs about the records of scalar instructions: words, operands, and results of bodies.

Each function takes records, so that tests can also pass wrong ones. It fails with values that contradict the
claim.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from every_path import explore, truth
from machine_words import Word, compiled
from riscv_manual import (
    ARITHMETIC,
    CONDITIONS,
    DIVISIONS,
    ENTRIES,
    IMMEDIATE,
    JUMPS,
    LOADS,
    STORES,
    divides,
    upper_immediate,
)
from solver import prove, z3
from symbolic_integers import Bits, Number, larger_product
from tx8isa.riscv.format import Encoding, EncodingError, Field, Scalar

X = 64


def operand(record: Encoding, field: Field) -> Bits:
    """Any value of slightly more bits than the field holds, including illegal ones."""
    width = max(field.maximum, ~field.minimum, field.modulus).bit_length() + 3
    return Bits.signed(z3.BitVec(f"{record.mnemonic}.{field.name}", width))


def same_values(found: dict[str, Any], given: dict[str, Any]) -> Any:
    """Return the condition that two sets of field values are equal."""
    if found.keys() != given.keys():
        return z3.BoolVal(False)
    return z3.And(*(truth(Bits.of(value) == given[name]) for name, value in found.items()))


def legal_values(record: Encoding) -> tuple[dict[str, Bits], list[Any]]:
    """Return field values, and the paths on which ``encode`` accepts them, each with the word."""
    values = {field.name: operand(record, field) for field in record.fields}
    paths = explore(lambda: record.encode(values), errors=(EncodingError,))
    return values, [path for path in paths if path.error is None]


def prove_decoding(record: Encoding) -> None:
    """Assert that ``decode`` returns the values of every word that ``encode`` makes."""
    values, ways = legal_values(record)
    assert ways, f"{record.mnemonic} has no legal operands"
    for way in ways:
        given = (*way.conditions, *way.axioms)
        way.prove(truth(way.result >> 8 * record.size == 0), f"{record.mnemonic}: the size of its word")
        for path in explore(partial(record.decode, way.result), *given):
            claim = z3.BoolVal(False) if path.result is None else same_values(path.result, values)
            path.prove(claim, f"{record.mnemonic}: decode(encode(values))")


def prove_encoding(record: Encoding) -> None:
    """Assert that ``encode`` accepts the decoded values of a word, and makes the same word of them."""
    word = Bits.unsigned(z3.BitVec("word", 8 * record.size))
    for way in explore(lambda: record.decode(word)):
        if way.result is None:
            continue
        for path in explore(
            lambda values=way.result: record.encode(values), *way.conditions, errors=(EncodingError,)
        ):
            path.prove(
                truth(path.result == word) if path.error is None else z3.BoolVal(False),
                f"{record.mnemonic}: encode(decode(word))",
            )


def recognised(record: Encoding, word: Bits) -> Any:
    """The condition on which the record decodes a word."""
    ways = [way for way in explore(lambda: record.decode(word)) if way.result is not None]
    return z3.Or(*(z3.And(*way.conditions) for way in ways))


def prove_exclusive(records: Sequence[Encoding], *reserved: tuple[str, Callable[[Any], Any]]) -> None:
    """Assert that no word is two instructions, or one of the reserved words: (name, condition on a word)."""
    word = z3.BitVec("word", 8 * records[0].size)
    claims = {record.mnemonic: recognised(record, Bits.unsigned(word)) for record in records}
    claims |= {name: condition(word) for name, condition in reserved}
    names = {name: z3.Bool(name) for name in claims}
    meanings = [names[name] == condition for name, condition in claims.items()]
    prove(z3.AtMost(*names.values(), 1), *meanings, what="a word is two instructions")


def prove_manual_encoding(record: Scalar) -> None:
    """Assert that the record's words are those of the manual, and so are the operands of each."""
    word, entry = z3.BitVec("word", 32), ENTRIES[record.mnemonic]
    due = operand_values(entry.operands(word))
    for path in explore(lambda: record.decode(Bits.unsigned(word))):
        if path.result is None:
            path.prove(z3.Not(entry.matches(word)), f"{record.mnemonic} leaves out a word of the manual")
        else:
            path.prove(entry.matches(word), f"{record.mnemonic} takes a word that is not the manual's")
            path.prove(same_values(path.result, due), f"{record.mnemonic}: operands of a word")


def operand_values(terms: dict[str, Any]) -> dict[str, Bits]:
    """The manual's operands as numbers; those of 64 bits are signed."""
    return {
        name: Bits.signed(term) if term.size() == X else Bits.unsigned(term) for name, term in terms.items()
    }


# --- results of bodies -------------------------------------------------------------------------------------


def manual_result(record: Scalar, a: Any, b: Any, pc: Any) -> Any:
    """The manual's result of an instruction for rs1, the second operand and the address, of 64 bits each."""
    name = record.mnemonic
    if name in ARITHMETIC or name in IMMEDIATE:
        return ARITHMETIC[IMMEDIATE.get(name, name)](a, b)
    if name in CONDITIONS:
        return CONDITIONS[name](a, b)
    if name in STORES:
        return z3.ZeroExt(X - STORES[name], z3.Extract(STORES[name] - 1, 0, a)) if STORES[name] < X else a
    return JUMPS[name](a, b, pc)


def prove_meaning(record: Scalar, machine: bool = False) -> None:
    """The body computes the manual's result for all registers and all immediates of all its words.

    With ``machine`` the body is executed on machine words. Signed division has a proof of its own.
    """
    word, a, b, pc = z3.BitVec("word", 32), z3.BitVec("rs1", X), z3.BitVec("rs2", X), z3.BitVec("pc", X)
    entry = ENTRIES[record.mnemonic]
    terms = entry.operands(word)
    body = compiled(record.body) if machine else record.body
    lift = (lambda value: Word(value, "i")) if machine else (lambda value: value)
    for way in explore(lambda: record.decode(Bits.unsigned(word)), entry.matches(word)):
        values = way.result
        arguments = [lift(value) for value in _arguments(record, values, a, b, pc)]
        due = manual_result(record, *_manual_arguments(record, terms, a, b), pc)
        for path in explore(partial(body, *arguments), *way.conditions):
            path.prove(_equal(record, path.result, due), f"{record.mnemonic}: its body")


def _arguments(record: Scalar, values: dict[str, Any], a: Any, b: Any, pc: Any) -> list[Bits]:
    first = {"upper": pc, "jal": pc, "store": b}.get(record.kind, a)
    if record.kind == "store":
        return [Bits.signed(first)]
    given = next((values[name] for name in ("imm", "shamt") if name in values), Bits.signed(b))
    return [Bits.signed(first), values["target"] if record.kind == "jal" else given]


def _manual_arguments(record: Scalar, terms: dict[str, Any], a: Any, b: Any) -> tuple[Any, Any]:
    if record.kind == "store":
        return b, None
    if record.kind == "upper":
        return a, upper_immediate(terms["imm"])
    given = next((terms[name] for name in ("imm", "shamt") if name in terms), b)
    second = terms["target"] if record.kind == "jal" else given
    return a, second if second.size() == X else z3.ZeroExt(X - second.size(), second)


def _equal(record: Scalar, found: Any, due: Any) -> Any:
    """Assert that the result is the right number: signed, or unsigned for stores."""
    if record.kind == "branch":
        return truth(found) == due
    value = found.value if isinstance(found, Word) else Bits.of(found)
    return truth(value == (Bits.unsigned(due) if record.kind == "store" else Bits.signed(due)))


def prove_load(record: Scalar, machine: bool = False) -> None:
    """The body extends the bytes in memory as the manual says, and their number is the manual's."""
    size, signed = LOADS[record.mnemonic]
    assert record.width * 8 == size, f"{record.mnemonic} loads {record.width} bytes"
    raw = z3.BitVec("raw", size)
    value: Any = Bits.unsigned(raw)
    body = compiled(record.body) if machine else record.body
    extend = z3.SignExt if signed else z3.ZeroExt
    for path in explore(lambda: body(Word(value, "u") if machine else value)):
        due = extend(X - size, raw) if size < X else raw
        path.prove(_equal(record, path.result, due), f"{record.mnemonic}: its body")


def prove_csr(record: Scalar) -> None:
    """The body writes the operand, or sets or clears its bits, by the letter of the mnemonic."""
    old, given = z3.BitVec("old", X), z3.BitVec("operand", X)
    due = {"w": given, "s": old | given, "c": old & ~given}[record.mnemonic.removesuffix("i")[-1]]
    for path in explore(lambda: record.body(Bits.signed(old), Bits.signed(given))):
        path.prove(truth(Bits.of(path.result) == Bits.signed(due)), f"{record.mnemonic}: its body")


# --- signed division: over integers, because no solver multiplies and divides 64 bits in time ---------------


def _low(value: Number, bits: int) -> Any:
    return value.wrapped(bits, True).term


def prove_division(record: Scalar, machine: bool = False) -> None:
    """div, rem, divw and remw for all operands: the manual's cases of 0 and overflow, else ``divides``."""
    bits, kind = DIVISIONS[record.mnemonic]
    least = -(1 << bits - 1)
    (a, dividend, a_range), (b, divisor, b_range) = (_integer(name, bits) for name in ("rs1", "rs2"))
    body = compiled(record.body) if machine else record.body
    arguments = [Word(number, "i") if machine else number for number in (a, b)]
    overflow = z3.And(dividend == least, divisor == -1)
    usual = z3.And(divisor != 0, z3.Not(overflow))
    by_zero, too_large = (-1, dividend) if kind == "quotient" else (dividend, 0)
    what = f"{record.mnemonic}: its body"
    for path in explore(lambda: body(*arguments), a_range, b_range):
        result = Number.of(path.result.value if isinstance(path.result, Word) else path.result).term
        path.prove(z3.Implies(divisor == 0, result == by_zero), f"{what} by 0")
        path.prove(z3.Implies(overflow, result == too_large), f"{what}, overflow")
        (_, q, x, y), *more = _divisions(path) or [(None, -dividend, dividend, divisor)]
        assert not more, f"{what} divides twice"
        path.prove(z3.And(x == dividend, y == divisor), f"{what}, operands of its division")
        candidates = [(result, x - y * result)] if kind == "quotient" else [(q, result), (q + 1, result)]
        path.prove(z3.Implies(usual, z3.Or(*(divides(x, y, *pair) for pair in candidates))), what)


def _integer(name: str, bits: int) -> tuple[Number, Any, Any]:
    """A register, the signed number in its low bits, and their bounds."""
    low, above = z3.Int(name), z3.Int(f"{name}.above")
    inside = [_between(low, bits)]
    term = low
    if bits < X:
        term = low + (1 << bits) * above
        inside.append(_between(term, X))
    return Number(term, -(1 << X - 1), (1 << X - 1) - 1), low, z3.And(*inside)


def _between(term: Any, bits: int) -> Any:
    half = 1 << bits - 1
    return z3.And(-half <= term, term < half)


def _divisions(path: Any) -> list[Any]:
    return [found for (kind, *_), found in path.defined.items() if kind == "remainder"]


def prove_one_division() -> None:
    """Assert that ``divides`` admits one quotient and one remainder, and that a product of positive numbers
    is no smaller than a factor."""
    a, b, q1, r1, q2, r2, x, y = z3.Ints("a b q1 r1 q2 r2 x y")
    prove(larger_product(x, y), what="a product of positive numbers")
    d = q1 - q2
    cases = [larger_product(x, y) for x in (d, -d) for y in (b, -b)]
    both = (b != 0, divides(a, b, q1, r1), divides(a, b, q2, r2))
    prove(z3.And(q1 == q2, r1 == r2), *both, *cases, what="two results of one division")
