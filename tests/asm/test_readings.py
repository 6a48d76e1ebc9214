"""Expressions that GNU as and C read differently have GNU's value, and a warning."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

import pytest

from asm.assembler import assemble_text
from asm.diagnostics import AsmError
from gnu_tools import GNU_AS, MARCH, OBJCOPY, missing_gnu

OPERATORS = ["<<", ">>", "==", "!=", "<>", "<=", ">=", "&&", "||", *"+-*/%|&^!<>"]
NUMBERS = (
    0,
    1,
    2,
    3,
    5,
    7,
    8,
    12,
    63,
    64,
    255,
    1 << 31,
    (1 << 62) + 9,
    (1 << 63) - 1,
    1 << 63,
    (1 << 64) - 1,
)


def drawn(rng: random.Random, depth: int = 3) -> str:
    """A random expression, half of its operators without parentheses."""
    if depth == 0 or rng.random() < 0.2:
        return str(rng.choice(NUMBERS[:10] if rng.random() < 0.8 else NUMBERS))
    if rng.random() < 0.2:
        return f"{rng.choice('-~!+')}({drawn(rng, depth - 1)})"
    left, op, right = drawn(rng, depth - 1), rng.choice(OPERATORS), drawn(rng, depth - 1)
    if op in "/%":  # GNU as crashes on -2**63 / -1
        right = rng.choice(("-2", "-7", *map(str, NUMBERS[:-1])))
    text = f"{left} {op} {right}"
    return f"({text})" if rng.random() < 0.5 else text


def by_gnu(texts: list[str], folder: Path) -> list[int]:
    """The values that GNU as gives expressions."""
    (folder / "p.s").write_text("".join(f".dword {text}\n" for text in texts))
    command = [GNU_AS, f"-march={MARCH}", "--no-warn", "p.s", "-o", "p.o"]
    subprocess.run(command, cwd=folder, check=True)
    subprocess.run([OBJCOPY, "-O", "binary", "-j", ".text", "p.o", "p.bin"], cwd=folder, check=True)
    data = (folder / "p.bin").read_bytes()
    return [int.from_bytes(data[at : at + 8], "little") for at in range(0, len(data), 8)]


def by_us(text: str) -> tuple[int, list[str]]:
    """Value and warnings of an expression."""
    assembly = assemble_text(f"nop\n.dword {text}\n", "p.s", (), {}, None)
    data = assembly.program.sections[".text"].data
    return int.from_bytes(data[4:12], "little"), [w.message for w in assembly.warnings.values()]


def by_c(text: str) -> int | None:
    """The value by Python's unlimited integers with C's precedence; None if it has none, as for 1 / 0."""
    expression = _CReader(text.replace("(", " ( ").replace(")", " ) ").split()).read(0)
    return None if expression is None else expression % 2**64


RANK = {
    op: rank
    for rank, ops in enumerate(("||", "&&", "|", "^", "&", "== !=", "< > <= >=", "<< >>", "+ -", "* / %"))
    for op in ops.split()
}
"""The precedence of C."""


class _CReader:
    """Reads an expression by climbing C's precedence."""

    def __init__(self, words: list[str]) -> None:
        self.words = words

    def read(self, least: int) -> int | None:
        value = self._unary()
        while self.words and self.words[0] != ")" and RANK.get(self.words[0], -1) >= least:
            op = self.words.pop(0)
            right = self.read(RANK[op] + 1)
            value = None if value is None or right is None else self._binary(op, value, right)
        return value

    def _unary(self) -> int | None:
        word = self.words.pop(0)
        if word in ("-", "~", "!", "+"):
            value = self._unary()
            signs = {"-": lambda v: -v, "~": lambda v: ~v, "!": lambda v: int(not v), "+": lambda v: v}
            return None if value is None else signs[word](value)
        if word == "(":
            value = self.read(0)
            self.words.pop(0)
            return value
        return int(word)

    def _binary(self, op: str, a: int, b: int) -> int | None:
        if op in ("/", "%"):
            if b == 0:
                return None
            quotient = abs(a) // abs(b) * (-1 if (a < 0) != (b < 0) else 1)
            return quotient if op == "/" else a - quotient * b
        if op in ("<<", ">>") and not 0 <= b < 64:
            return None
        if op in ("&&", "||"):
            return int(bool(a and b) if op == "&&" else bool(a or b))
        return int(eval(f"({a}) {op} ({b})"))


@pytest.mark.parametrize("seed", range(3))
def test_the_value_is_that_of_gnu_as_and_where_c_has_another_one_there_is_a_warning(
    seed: int, tmp_path: Path
) -> None:
    missing_gnu()
    rng = random.Random(seed)
    texts = [drawn(rng) for _ in range(400)]
    warned = refused = 0
    for text, theirs in zip(texts, by_gnu(texts, tmp_path), strict=True):
        try:
            value, warnings = by_us(text)
        except AsmError as error:
            assert any(word in str(error) for word in ("64 bits", "by zero", "outside 0..63", "'! !'")), text
            refused += 1
            continue
        assert value == theirs, text
        plain = text.replace("<>", "!=")
        c = by_c(plain) if " ! " not in plain else None
        assert warnings or c in (None, value), text
        warned += bool(warnings)
    assert warned > 100 and 0 < refused < 200


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("6 & 3 + 1", "'&' is applied before '+', as in GNU as; C does it after"),
        ("1 + 2 | 4", "'|' is applied before '+'"),
        ("1 << 2 * 3", "'<<' is applied before '*'"),
        ("8 & 12 == 8", "'&' is applied before '=='"),
        ("1 | 6 & 2", "'|' is applied before '&'"),
        ("(3 > 2) * 5", "a true '>' is -1 here, as in GNU as; in C it is 1"),
        ("~(1 == 1)", "a true '==' is -1 here"),
        ("-8 >> 1", "-8 >> 1 is 9223372036854775804 here, as in GNU as; on numbers of any size it is -4"),
        (
            "0xffffffffffffffff / 2",
            "is 0 here, as in GNU as; on numbers of any size it is 9223372036854775807",
        ),
        ("!!(0xffffffffffffffff > 1)", "18446744073709551615 > 1 is 0 here"),
    ],
)
def test_the_warning_says_what_differs(text: str, message: str) -> None:
    assert any(message in found for found in by_us(text)[1])


@pytest.mark.parametrize(
    "text",
    [
        "(6 & 3) + 1",
        "6 & (3 + 1)",
        "1 << 4 | 3",
        "1 + 2 * 3 - 4",
        "1 ^ 2 | 4",
        "!!(3 > 2) * 5",
        "(3 > 2) && (1 == 1)",
        "!(3 > 2)",
        "8 >> 1",
        "0xffffffffffffffff & 0xff",
        "here - start",
    ],
)
def test_no_warning_where_both_readings_agree(text: str) -> None:
    assert by_us(f"{text}\nstart: nop\nhere:")[1] == []


@pytest.mark.parametrize(
    ("line", "column"),
    [
        ("li a0, 6 & 3 + 1", 10),
        ("addi a0, a0, 6 & 3 + 1", 16),
        ("lw a0, 1 | 2 + 4(sp)", 10),
        ("rdma.fp16 dst=2 | 1 << 4 + 8, src=a0, n=4", 17),
        ("ct.reduce.sum.fp16 dst=0, src0=0, shape=[1, 1, 1, 2 & 6 + 1], dims=w", 53),
        (".equ x, 6 & 3 + 1", 11),
        ("x = 6 & 3 + 1", 7),
        (".word 1, 6 & 3 + 1", 12),
        (".space 6 & 3 + 1", 10),
        (".if 6 & 3 + 1\n.endif", 7),
        ("lui a0, %hi(6 & 3 + 1)", 15),
    ],
)
def test_every_place_of_an_expression_is_warned_of(line: str, column: int) -> None:
    found = assemble_text(f"nop\n{line}\n", "p.s", (), {}, None).warnings.values()
    assert [(w.line, w.column) for w in found] == [(2, column)]


def test_every_line_of_a_shape_and_every_macro_is_warned_of() -> None:
    text = ".macro m n\nli a0, \\n & 3 + 1\n.endm\nli a0, 6 & 3 + 1\nli a1, 4 & 2 + 1\n m 5\n"
    found = assemble_text(text, "p.s", (), {}, None).warnings.values()
    assert sorted(w.line for w in found) == [2, 4, 5]


@pytest.mark.parametrize(
    ("condition", "taken"),
    [
        (".if 3 > 2", True),
        (".if (3 > 2) & (2 > 1)", True),
        (".if (3 > 2) & !0", True),
        (".if (3 > 2) == 0", False),
        (".if !(3 > 2)", False),
        (".ifne 3 < 2", False),
        (".ifeq 3 < 2", True),
        (".if 0\n.elseif 3 > 2", True),
    ],
)
def test_conditions_take_any_truth_without_a_warning(condition: str, taken: bool) -> None:
    assembly = assemble_text(f"nop\n{condition}\nnop\n.endif\n", "p.s", (), {}, None)
    assert not assembly.warnings and len(assembly.section.data) == (8 if taken else 4)


@pytest.mark.parametrize("condition", [".ifgt 3 > 2", ".iflt 3 > 2", ".if (3 > 2) + 1", ".if (3 > 2) ^ !0"])
def test_conditions_that_see_the_number_are_warned_of(condition: str) -> None:
    (found,) = assemble_text(f"nop\n{condition}\n.endif\n", "p.s", (), {}, None).warnings.values()
    assert found.message.startswith("a true '>' is -1 here")
