"""Expressions against Python's integers."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import asm
from asm.assembler import assemble_text
from asm.diagnostics import AsmError, Fault
from asm.syntax.expressions import literal, unescape
from asm.syntax.parse import ATOM, parse_operands, parse_with_grammar

ORIGIN = 0x8000_0000


@dataclass(frozen=True)
class Tree:
    """An expression as our text and its exact value, None if it has none in 64 bits."""

    text: str
    value: int | None


def quotient(a: int, b: int) -> int:
    """C's division, in exact integers: truncated, so of the magnitudes."""
    sign = -1 if (a < 0) != (b < 0) else 1
    return sign * (abs(a) // abs(b))


def in_range(value: int) -> int | None:
    return value if -(2**63) <= value < 2**64 else None


def signed(value: int) -> int:
    return (value + 2**63) % 2**64 - 2**63


def binary(op: str, a: int, b: int) -> int | None:
    """The operators of GNU as: 64 bits with a sign in / % and comparisons, without one in >>; -1 is true."""
    if op in "/%":
        if b == 0:
            return None
        a, b = signed(a), signed(b)
        return in_range(quotient(a, b) if op == "/" else a - quotient(a, b) * b)
    if op in ("<<", ">>"):
        return in_range(a * 2**b if op == "<<" else a % 2**64 // 2**b) if 0 <= b < 64 else None
    if op in ("&&", "||"):
        return int(a != 0 and b != 0) if op == "&&" else int(a != 0 or b != 0)
    if op == "!":
        return in_range(a | -b - 1)
    if op[0] in "<>=!":
        return -int(eval(f"({signed(a)}) {op.replace('<>', '!=')} ({signed(b)})"))
    return in_range(int(eval(f"({a}) {op} ({b})")))


def combine(op: str, left: Tree, right: Tree) -> Tree:
    value = None if left.value is None or right.value is None else binary(op, left.value, right.value)
    return Tree(f"({left.text}) {op} ({right.text})", value)


def negate(op: str, tree: Tree) -> Tree:
    if tree.value is None:
        return Tree(f"{op}({tree.text})", None)
    result = {"-": -tree.value, "~": -tree.value - 1, "!": int(tree.value == 0)}[op]
    return Tree(f"{op}({tree.text})", in_range(result))


NUMBERS = st.one_of(st.integers(0, 70), st.integers(0, 2**64 - 1)).flatmap(
    lambda n: st.sampled_from([str(n), hex(n), bin(n), f"0{n:o}"]).map(lambda text: Tree(text, n))
)
OPERATORS = st.sampled_from([*"+-*/%&|^<>!", "<<", ">>", "==", "!=", "<>", "<=", ">=", "&&", "||"])
TREES = st.recursive(
    NUMBERS,
    lambda inner: st.one_of(
        st.builds(combine, OPERATORS, inner, inner), st.builds(negate, st.sampled_from("-~!"), inner)
    ),
    max_leaves=8,
)


def assembled(text: str) -> int:
    """Evaluate an expression; test_readings tests expressions that C reads differently."""
    section = assemble_text(f"nop\n.dword {text}\n", "p.s", (), {}, None).section
    return int.from_bytes(section.data[4:12], "little")


@given(TREES)
def test_value_is_the_exact_one_or_refused(tree: Tree) -> None:
    if tree.value is None:
        with pytest.raises(AsmError):
            assembled(tree.text)
    else:
        assert assembled(tree.text) == tree.value % 2**64


PRECEDENCE = ["||", "&&", "== != <> < > <= >=", "+ -", "| ^ & !", "* / % << >>"]
RANKED = [(rank, op) for rank, ops in enumerate(PRECEDENCE) for op in ops.split()]


@given(st.sampled_from(RANKED), st.sampled_from(RANKED), *[st.integers(0, 9)] * 3)
def test_precedence_is_that_of_gnu_as(
    one: tuple[int, str], other: tuple[int, str], a: int, b: int, c: int
) -> None:
    """An operator in a later row binds tighter; operators of one row group from the left."""
    (first, second), ops = (one[0], other[0]), (one[1], other[1])
    left = combine(ops[1], combine(ops[0], Tree(str(a), a), Tree(str(b), b)), Tree(str(c), c))
    right = combine(ops[0], Tree(str(a), a), combine(ops[1], Tree(str(b), b), Tree(str(c), c)))
    expected = left if first >= second else right
    assume(expected.value is not None)
    assert assembled(f"{a} {ops[0]} {b} {ops[1]} {c}") == (expected.value or 0) % 2**64


@pytest.mark.parametrize("op", ["-", "~", "!"])
def test_unary_operators_bind_tighter_than_binary_ones(op: str) -> None:
    assert assembled(f"{op}2 * 3 + 1") == (negate(op, Tree("2", 2)).value or 0) * 3 % 2**64 + 1 - (
        2**64
        if ((negate(op, Tree("2", 2)).value or 0) * 3 + 1) >= 0 > (negate(op, Tree("2", 2)).value or 0) * 3
        else 0
    )


@given(TREES, TREES)
def test_a_symbol_stands_for_its_value(left: Tree, right: Tree) -> None:
    assume(left.value is not None and right.value is not None)
    total = in_range((left.value or 0) - (right.value or 0))
    assume(total is not None)
    defined = f"\n.equ a, {left.text}\n.equ b, {right.text}"
    assert assembled(f"a - b{defined}") == (total or 0) % 2**64


@given(st.lists(st.sampled_from(["nop", ".word 1", ".space 4"]), max_size=20), st.data())
def test_label_differences_count_bytes(body: list[str], data: st.DataObject) -> None:
    i, j = (data.draw(st.integers(0, len(body))) for _ in range(2))
    lines = [f"l{n}: {line}" for n, line in enumerate(body)]
    text = "\n".join((f".dword l{j} - l{i}, l{i}", *lines, f"l{len(body)}: nop\n"))
    first, second = asm.assemble(text).segments[0].data[:8], asm.assemble(text).segments[0].data[8:16]
    assert int.from_bytes(first, "little", signed=True) == 4 * (j - i)
    assert int.from_bytes(second, "little") == ORIGIN + 16 + 4 * i


ATOMS = st.sampled_from(["a0", "0x10", "7", "sym", "x.y", "1f", "0b", ".", "$d", "1e-6", "2.5", ".L1"])
TERMS = st.builds(lambda sign, atom: f"{sign}{atom}", st.sampled_from(["", "-", " - "]), ATOMS)
SUMS = st.builds(
    lambda first, rest: first + "".join(f"{op}{term}" for op, term in rest),
    TERMS,
    st.lists(st.tuples(st.sampled_from(["+", " - ", "-"]), TERMS), max_size=2),
)
PLAIN = st.builds(
    lambda name, value: f"{name}{value}",
    st.sampled_from(["", "n=", "dst = "]),
    st.one_of(
        st.builds(lambda offset, base: f"{offset}{base}", SUMS, st.sampled_from(["", "(sp)", " ( a0+4 )"])),
        st.builds(
            lambda parts, comma: f"[{comma.join(parts)}]",
            st.lists(SUMS, min_size=1, max_size=4),
            st.sampled_from([",", " , "]),
        ),
    ),
)


@given(st.lists(PLAIN, max_size=6), st.sampled_from([",", ", ", " , "]), st.sampled_from(["", " ", "\t"]))
def test_the_short_way_of_parsing_agrees_with_the_grammar(parts: list[str], comma: str, blank: str) -> None:
    text = "op " + comma.join(parts) + blank
    assert parse_operands(text, 3) == parse_with_grammar(text, 3)


def test_what_compilers_write_is_parsed_without_the_grammar() -> None:
    text = ".equ v, 64\n.equ w, v+0x40\nlw a1, 4+4(a0)\n"
    text += "ct.reduce.sum.fp16 dst=w+2, src0=v, shape=[1,2,4,64], dims=w\n"
    code = f"import asm, sys; asm.assemble({text!r}); print('lark' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "False\n"


@given(st.text(alphabet="ab10(),=-+[]'\"%. \\x", max_size=12))
def test_any_text_is_parsed_or_refused(text: str) -> None:
    """Both parsers accept the same texts, and raise nothing but Fault."""
    try:
        expected = parse_with_grammar(text)
    except Fault as fault:
        assert fault.at is not None
        assert 0 <= fault.at <= len(text)
        with pytest.raises(Fault):
            parse_operands(text)
    else:
        assert parse_operands(text) == expected


@given(st.lists(ATOMS, min_size=1, max_size=5), st.lists(ATOMS, min_size=5, max_size=5), st.integers(0, 3))
def test_places_carry_over_to_texts_of_the_same_shape(here: list[str], there: list[str], blank: int) -> None:
    first = "op " + ", ".join(f"n={a}" for a in here)
    start = blank + 3
    second = " " * blank + "op " + ", ".join(f"n={a}" for a in there[: len(here)])
    operands = parse_with_grammar(first, 3)
    found = [m.start() for m in ATOM.finditer(second, start)]
    assume(len(found) == len(here))
    places = [m.start() for m in ATOM.finditer(first, 3)]
    assert [operands.offset_in(second, start, at) for at in places] == found


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0),
        ("0x1F", 31),
        ("0b11", 3),
        ("010", 8),
        ("0o10", 8),
        ("'a'", 97),
        (r"'\n'", 10),
        (r"'\x41'", 65),
    ],
)
def test_literals(text: str, value: int) -> None:
    assert literal(text) == value


@pytest.mark.parametrize("text", ["sym", "1f", "10b", "_x", "$", "."])
def test_names_are_no_literals(text: str) -> None:
    assert literal(text) is None


@pytest.mark.parametrize(
    "text", ["08", "0x", "0o", "0O", "0b2", "1.5", "1e3", "12ab", "''", "'ab'", "'", str(2**64), "0o8"]
)
def test_malformed_literals_are_refused(text: str) -> None:
    with pytest.raises(Fault):
        literal(text)


@given(st.binary(max_size=20))
def test_octal_escapes_give_any_bytes(data: bytes) -> None:
    assert unescape("".join(f"\\{byte:03o}" for byte in data)) == data


@given(st.text(alphabet=st.characters(exclude_characters='\\"\n', exclude_categories=["Cs"]), max_size=20))
def test_other_characters_stand_for_their_utf8(text: str) -> None:
    assert unescape(text) == text.encode()
