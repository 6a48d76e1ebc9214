"""Expressions as sums: the shortest code, and facts about kept values, against Python's integers."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.codegen.emitter import Emitter
from compiler.codegen.expr import Operation, Value, Variable, lanes, maximum, minimum
from compiler.codegen.phase import Target
from compiler.codegen.registers import POOL, SIZE_PREFIX, Registers, registers_for
from compiler.codegen.registers.spilling import Spills
from compiler.evaluation.sizes import Domain, Size, dimension
from core_steps import interpret
from tx8isa.numbers.formats import Format

TILE, ROW, FAR = Variable("s0", 0, 7), Variable("s1", 0, 63), Variable("s2", -4096, 1 << 20)
VARIABLES = (TILE, ROW, FAR)
LINES = st.tuples(st.sampled_from(VARIABLES), st.integers(-9, 9), st.integers(-40, 40))
ENVIRONMENTS = st.fixed_dictionaries({each.register: st.integers(each.low, each.high) for each in VARIABLES})
RULES: Sequence[tuple[Callable[[Value, Value], Value], Callable[[int, int], int]]] = (
    (operator.sub, operator.sub),
    (operator.add, operator.add),
    (minimum, min),
    (maximum, max),
    (lambda a, b: minimum(a + 5, maximum(b - 3, 0)), lambda a, b: min(a + 5, max(b - 3, 0))),
    (lambda a, b: maximum(a, 0) % 8 - b, lambda a, b: max(a, 0) % 8 - b),
    (lambda a, b: maximum(4 * a, 0) // 4 + b, lambda a, b: max(4 * a, 0) // 4 + b),
)


def registers_of(out: Emitter) -> Registers:
    target = Target(16, 1 << 20, Format.FP16, small=True)
    registers = registers_for(target, out, Spills(), None)
    used = {each.register for each in VARIABLES}
    registers.limit(tuple(name for name in POOL if name not in used))
    return registers


class Code:
    """Code that is executed while it is generated."""

    def __init__(self, environment: dict[str, int]) -> None:
        self.out = Emitter()
        self.registers = registers_of(self.out)
        self.state = dict(environment)

    def value(self, value: Value) -> int:
        """Return the value of an operand."""
        with self.registers.scope():
            begin = self.out.count
            register = self.registers.operand(value)
            self.run(begin)
            return 0 if register == "zero" else self.state[register]

    def keep(self, value: Value) -> Value:
        begin = self.out.count
        kept = self.registers.keep(value)
        self.run(begin)
        return kept

    def run(self, begin: int) -> None:
        interpret(self.out.lines[begin:], self.state)


def kept_values(
    code: Code, lines: Sequence[tuple[Variable, int, int]], rules: Sequence[int]
) -> list[tuple[Value, int]]:
    """Values in registers with their expressions; later values are computed from earlier ones."""
    found: list[tuple[Value, int]] = []
    for variable, factor, addend in lines:
        value: Value = variable * factor + addend
        found.append((code.keep(value), code.state[variable.register] * factor + addend))
    for rule in rules:
        make, meaning = RULES[rule % len(RULES)]
        (one, of_one), (other, of_other) = found[-1], found[rule % len(found)]
        found.append((code.keep(make(one, other)), meaning(of_one, of_other)))
    return found


@settings(max_examples=25)
@given(
    st.lists(LINES, min_size=1, max_size=4),
    st.lists(st.integers(0, 99), max_size=4),
    ENVIRONMENTS,
    st.booleans(),
)
def test_what_is_known_of_kept_values_is_right(
    lines: list[tuple[Variable, int, int]], rules: list[int], environment: dict[str, int], changes: bool
) -> None:
    """The same holds after a change of a variable in some of them."""
    code = Code(environment)
    with code.registers.scope():
        kept = kept_values(code, lines, rules)
        if changes:
            begin = code.out.count
            code.registers.add(FAR, 1 if code.state["s2"] < FAR.high else -1)
            code.run(begin)
        kept += [(each, code.state[each.register]) for each in VARIABLES]
        for (one, of_one), (other, of_other) in [*pairwise(kept), *pairwise(reversed(kept))]:
            below = code.registers.forms.is_below(one, other)
            assert below is None or below == (of_one < of_other)
            for make, meaning in RULES:
                assert code.value(make(one, other)) == meaning(of_one, of_other)


def instructions(code: Code, value: Value) -> list[str]:
    """The mnemonics of the instructions of an operand."""
    begin = code.out.count
    with code.registers.scope():
        code.registers.operand(value)
    return [line.split()[0] for line in code.out.lines[begin:]]


def test_a_difference_of_kept_values_may_be_a_number() -> None:
    code = Code({"s0": 3, "s1": 5})
    first = code.keep(TILE * 4)
    last = code.keep(first + 4)
    assert code.registers.keep(last - first) == 4
    assert instructions(code, (last - first) * ROW) == ["slli"]
    assert instructions(code, maximum(last - first, ROW - 63)) == ["li"]


def test_rows_with_a_halo_are_not_compared_again() -> None:
    """Rows of an image from one before a tile's rows to one after them, which are never empty."""
    code = Code({"s0": 3, "s1": 5})
    begin = code.keep(maximum(TILE * 4 - 1, 0))
    end = minimum(TILE * 4 + 5, 32)
    count = instructions(code, maximum(end, begin + 1) - begin)
    assert count.count("ble") == 1
    assert "ble" not in instructions(code, maximum(begin - (TILE * 4 - 1), 0))
    assert code.registers.forms.is_below(begin, end)
    assert code.registers.forms.is_below(end, begin) is False
    assert code.registers.forms.is_below(begin, TILE * 4) is None


@pytest.mark.parametrize(
    ("value", "mnemonics"),
    [
        ((TILE * 128 + ROW * 4) * 2 - ROW * 8, ["slli"]),
        (TILE * 384 + ROW * 384, ["add", "li", "mul"]),
        ((TILE * 8 + ROW) - ROW, ["slli"]),
        ((TILE * 16 + 5) // 8 * 8, ["slli"]),
        ((TILE * 16 + 5) % 8, ["li"]),
        (Operation("sub", 0, TILE, -7, 0), ["sub"]),
        (TILE + 1 - ROW, ["addi", "sub"]),
    ],
)
def test_sums_take_few_instructions(value: Value, mnemonics: list[str]) -> None:
    assert instructions(Code({}), value) == mnemonics


def test_a_variable_that_is_no_longer_in_use_is_not_taken_for_another() -> None:
    code = Code({"s0": 3, "s1": 5})
    value = minimum(TILE * 5, ROW)
    with code.registers.scope():
        code.keep(value)
    code.registers.forget_all()
    others = [code.keep(maximum(ROW * 3, number)) for number in range(7, 14)]
    kept = code.keep(value)
    assert code.value(kept + TILE) == 8
    assert code.value(others[0] - kept) == 10


# --- sizes ------------------------------------------------------------------------------------------------

SIZES = np.arange(1, 41, dtype=np.int64)


def sized(value: Callable[[Size], Value], state: dict[str, int]) -> list[str]:
    """Return the mnemonics for an operand with a size, after checking its value at all points."""
    domain = Domain({"n": SIZES}, 16, np.ones(len(SIZES), bool))
    made = value(dimension(domain, "n"))
    out = Emitter()
    with registers_of(out).scope():
        registers = registers_of(out)
        found = registers.operand(made)
    lines = list(out.lines)
    for at, number in enumerate(SIZES.tolist()):
        memory = {f"{SIZE_PREFIX}{text}": int(size.values[at]) for text, size in domain.loads.items()}
        after = dict(state)
        interpret(lines, after, memory)
        exact = meaning(value(number), state)  # type: ignore[arg-type]  # a number in place of the size
        assert (0 if found == "zero" else after[found]) == exact
    assert domain.count == len(SIZES)
    return [line.split()[0] for line in lines]


def meaning(value: Value, state: dict[str, int]) -> int:
    """Evaluate an expression by Python's arithmetic."""
    if isinstance(value, Variable):
        return state[value.register]
    if not isinstance(value, Operation):
        return value  # type: ignore[return-value]  # a number
    left, right = meaning(value.left, state), meaning(value.right, state)
    rules: dict[str, Callable[[int, int], int]] = {
        **{"add": operator.add, "sub": operator.sub, "mul": operator.mul, "shl": operator.lshift},
        **{"div": operator.floordiv, "rem": operator.mod, "or": operator.or_, "min": min, "max": max},
    }
    return rules[value.op](left, right)


@pytest.mark.parametrize(
    ("value", "mnemonics"),
    [
        (lambda n: (TILE * n + 3 * n) * 2, ["ld", "mul", "ld", "add"]),
        (lambda n: ROW * (n * 64) + TILE * 8 + n * 96, None),
        (lambda n: (ROW * 384 + 128 + n * 384) * 2, None),
        (lambda n: maximum(ROW - 64, n), ["ld"]),
        (lambda n: minimum(ROW + n, n + 70) - n, []),
        (lambda n: lanes([1, ROW, n, 64]), ["slli", "ld", "add"]),
        (lambda n: lanes([1, 1, n, 64]), ["ld"]),
        (lambda n: lanes([ROW, 1, n // 2, TILE]), None),
        (lambda n: (ROW * 8 + n) // 8 * 8 + (ROW * 8 + n) % 8, None),
        (lambda n: (n - 20) * ROW - n, None),
    ],
)
def test_what_depends_on_a_size_alone_is_one_size(
    value: Callable[[Size], Value], mnemonics: list[str] | None
) -> None:
    found = sized(value, {"s0": 6, "s1": 41, "s2": -5})
    assert mnemonics is None or found == mnemonics


def test_numbers_that_leave_64_bits_are_computed_step_by_step() -> None:
    large = 1 << 60
    value = Operation("mul", Operation("sub", FAR, large, -large - 4096, 0), 1 << 30, -1, 1)
    code = Code({"s2": 7})
    exact = (7 - large) * (1 << 30) & (1 << 64) - 1
    assert code.value(value) & (1 << 64) - 1 == exact
