"""Integer expressions: results of the emitted instructions against Python's integers."""

from __future__ import annotations

import operator
from collections.abc import Callable

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from compiler.codegen.emitter import Emitter
from compiler.codegen.expr import (
    Address,
    Operation,
    Value,
    Variable,
    bounds,
    constant,
    lanes,
    maximum,
    minimum,
)
from compiler.codegen.phase import Target
from compiler.codegen.registers import POOL, Registers, registers_for
from compiler.codegen.registers.spilling import Spills
from core_steps import interpret
from tx8isa.numbers.formats import Format

VARIABLES = {"s0": (0, 15), "s1": (-40, 90), "s2": (1, 4096), "s3": (0, 1 << 20)}
_MASK = (1 << 64) - 1


Pair = tuple[Value, Callable[[dict[str, int]], int]]


LEAVES = [Variable(name, *limits) for name, limits in VARIABLES.items()]


def leaves() -> st.SearchStrategy[Pair]:
    variables = [(value, lambda env, name=value.register: env[name]) for value in LEAVES]
    literals = st.integers(-5000, 5000).map(lambda n: (n, lambda env: n))
    return st.one_of(st.sampled_from(variables), literals)


def combine(children: st.SearchStrategy[Pair]) -> st.SearchStrategy[Pair]:
    rules: list[tuple[Callable[[Value, Value], Value], Callable[[int, int], int]]] = [
        (operator.add, lambda a, b: a + b),
        (operator.sub, lambda a, b: a - b),
        (operator.mul, lambda a, b: a * b),
        (minimum, min),
        (maximum, max),
    ]

    def build(rule: object, a: Pair, b: Pair) -> Pair:
        make, meaning = rule  # type: ignore[misc]
        try:
            return make(a[0], b[0]), lambda env: meaning(a[1](env), b[1](env))
        except ValueError as error:
            assume("leaves 64 bits" not in str(error))
            raise

    def divide(divisor: int, a: Pair, rest: bool) -> Pair:
        positive = maximum(a[0], 0)
        if rest:
            return positive % divisor, lambda env: max(a[1](env), 0) % divisor
        return positive // divisor, lambda env: max(a[1](env), 0) // divisor

    return st.one_of(
        st.builds(build, st.sampled_from(rules), children, children),
        st.builds(divide, st.integers(1, 300), children, st.booleans()),
    )


EXPRESSIONS = st.recursive(leaves(), combine, max_leaves=6)
ENVIRONMENTS = st.fixed_dictionaries({name: st.integers(*limits) for name, limits in VARIABLES.items()})


@given(EXPRESSIONS, ENVIRONMENTS)
def test_emitted_code_computes_what_python_does(pair: Pair, environment: dict[str, int]) -> None:
    value, meaning = pair
    expected = meaning(environment)
    low, high = bounds(value)
    assert low <= expected <= high
    out = Emitter()
    registers = Registers(out, Spills())
    registers._free = [name for name in POOL if name not in VARIABLES]
    state = dict(environment)
    result = registers.compute(value)
    interpret(out.lines, state)
    assert state[result] == expected
    assert {name: state[name] for name in VARIABLES} == environment, "variables keep their values"


@given(EXPRESSIONS)
def test_temporaries_are_given_back(pair: Pair) -> None:
    registers = Registers(Emitter(), Spills())
    registers._free = [name for name in POOL if name not in VARIABLES]
    before = len(registers._free)
    registers.compute(pair[0])
    assert len(registers._free) >= before - 1


def small(out: Emitter) -> Registers:
    """The registers for code that is to be small."""
    target = Target(16, 1 << 20, Format.FP16, small=True)
    return registers_for(target, out, Spills(), None)


@given(st.lists(EXPRESSIONS, min_size=1, max_size=5), ENVIRONMENTS)
def test_operands_are_right_whatever_registers_hold(pairs: list[Pair], environment: dict[str, int]) -> None:
    """Several values at once, in any order, also after a variable has changed; registers are reused."""
    out = Emitter()
    registers = small(out)
    registers._free = [name for name in POOL if name not in VARIABLES]
    changed = next(value for value in LEAVES if value.register == "s3")
    state = dict(environment)
    for pair in (*pairs, *reversed(pairs), pairs[0]):
        begin = out.count
        with registers.scope():
            operands = [(each, registers.operand(each[0])) for each in (*pairs, pair)]
            made = out.count
            assert registers.operand(pair[0]) == operands[-1][1]
            assert out.count == made
        interpret(out.lines[begin:], state)
        for (_, meaning), register in operands:
            assert (0 if register == "zero" else state[register]) == meaning(environment)
        step = -1 if environment["s3"] else 1
        registers.add(changed, step)
        interpret(out.lines[out.count - 1 :], state)
        environment = {**environment, "s3": environment["s3"] + step}


def test_what_registers_hold_is_forgotten_where_others_go_on() -> None:
    out = Emitter()
    registers = small(out)

    def lines_for(value: Value) -> int:
        before = out.count
        with registers.scope():
            registers.operand(value)
        return out.count - before

    assert [lines_for(4095), lines_for(4095)] == [1, 0]
    out.label("elsewhere")
    assert lines_for(4095) == 1
    skipped = registers.state()
    assert lines_for(77) == 1
    registers.join("end", skipped)
    assert [lines_for(4095), lines_for(77)] == [0, 1]
    with registers.scope():
        registers.keep(91)
        registers.label_of_loop("begin")
        assert [lines_for(4095), lines_for(91)] == [1, 0]
    registers.forget_all()
    assert lines_for(91) == 1


@given(
    st.lists(st.integers(0, 0xFFFF), min_size=4, max_size=4), st.lists(st.booleans(), min_size=4, max_size=4)
)
def test_lanes_are_packed_like_the_encoder_packs_them(parts: list[int], dynamic: list[bool]) -> None:
    names = ("s0", "s1", "s2", "s3")
    values: list[Value] = [
        Variable(name, 0, 0xFFFF) if known else part
        for name, part, known in zip(names, parts, dynamic, strict=True)
    ]
    out = Emitter()
    registers = Registers(out, Spills())
    registers._free = [name for name in POOL if name not in names]
    state = dict(zip(names, parts, strict=True))
    result = registers.compute(lanes(values))
    interpret(out.lines, state)
    assert state[result] & _MASK == int("".join(f"{part:04x}" for part in parts), 16)


def test_what_the_range_decides_needs_no_code() -> None:
    index = Variable("s0", 0, 15)
    assert minimum(index, 15) is index
    assert maximum(index, 0) is index
    assert index // 16 == 0
    assert index % 16 is index
    assert index * 0 == 0
    assert constant(5) == 5


def test_offsets_of_a_symbol_are_left_to_the_assembler() -> None:
    place = Address("x") + 8 + 24
    assert isinstance(place, Address)
    assert place.text == "x+32"


def test_division_of_what_may_be_negative_is_refused() -> None:
    value = Variable("s0", -1, 5)
    with pytest.raises(ValueError, match="only 0 and above by 1 and above"):
        value // 4
    with pytest.raises(ValueError, match="only 0 and above by 1 and above"):
        value % 4


def test_division_by_zero_is_refused() -> None:
    with pytest.raises(ValueError, match=r"division of \(0, 3\) by 0"):
        Variable("s0", 0, 3) // 0


def test_a_range_beyond_64_bits_is_refused() -> None:
    wide = Variable("s0", 0, 1 << 40)
    with pytest.raises(ValueError, match="leaves 64 bits"):
        wide * wide


@pytest.mark.parametrize("part", [-1, 0x10000])
def test_a_lane_that_may_not_fit_is_refused(part: int) -> None:
    with pytest.raises(ValueError, match="a lane has 16 bits"):
        lanes([1, part, 3, 4])
    with pytest.raises(ValueError, match="a lane has 16 bits"):
        lanes([1, Variable("s0", min(part, 0), max(part, 5)), 3, 4])


def test_an_unknown_value_is_no_constant() -> None:
    with pytest.raises(ValueError, match="known when compiling"):
        constant(Variable("s0", 0, 1))


def test_too_many_live_values_are_noted() -> None:
    spills = Spills()
    registers = Registers(Emitter(), spills)
    for _ in POOL:
        registers.take()
    assert not spills.shortages
    registers.compute(7)
    assert [shortage.excess for shortage in spills.shortages] == [1]


def test_operations_print_in_the_order_they_run() -> None:
    out = Emitter()
    Registers(out, Spills()).compute(Operation("add", Variable("s0", 0, 9), 5, 5, 14))
    assert [line.split() for line in out.lines] == [["addi", "t0,", "s0,", "5"]]


def test_lines_become_text_in_order_when_they_are_asked_for() -> None:
    out = Emitter()
    out.label("begin")
    out.instruction("li", "t0", "1")
    assert (out.count, out.instructions) == (2, 1)
    out.lines.append("given")
    out.instruction("ecall")
    assert out.lines == ["begin:", "        li                      t0, 1", "given", "        ecall"]
    assert (out.count, out.instructions) == (4, 2)
    assert out.lines is out.lines
