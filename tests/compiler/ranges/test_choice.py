"""The choice between versions of a phase, and the sizes at the start, executed for all sizes of a range."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from asm.image import Dimension
from compiler.codegen.program import SHAPE_WORD
from compiler.codegen.registers import SIZE_PREFIX
from compiler.evaluation.sizes import Domain, Size, chosen, dimension, largest, least
from compiler.evaluation.sizes.ranges import Ranges
from compiler.graph import GraphError
from compiler.passes.ranges.choice import chosen_version
from compiler.passes.ranges.table import SizeTable
from core_steps import interpret
from tx8isa.numbers.division import ceil_div

RANGES = Ranges((Dimension("width", 3, 8, 40), Dimension("batch", 1, 1, 4)))
WIDTH, BATCH = RANGES.points["width"], RANGES.points["batch"]


def lines_of(numbers: Any) -> tuple[list[str], dict[str, Size]]:
    """The choice between versions, by their number at each point, and the sizes that it loads."""
    context: Any = SimpleNamespace(ranges=RANGES, size_loads={})
    versions: Any = [SimpleNamespace(points=numbers == at) for at in range(int(numbers.max()) + 1)]
    lines = list(chosen_version(context, "p0", versions, [["        nop"] for _ in versions]))
    return lines[: lines.index("p0.version0:")], context.size_loads


@pytest.mark.parametrize(
    ("numbers", "table"),
    [
        ((BATCH > 1) * 1, False),
        ((WIDTH < 20) * 1, False),
        ((WIDTH * BATCH >= 60) * 1, False),
        (np.where(BATCH == 1, 0, np.where(WIDTH < 9, 1, 2)), False),
        (np.where(WIDTH < 9, 2, np.where(WIDTH * BATCH > 70, 1, 0)), False),
        (((WIDTH > 10) & (WIDTH < 20)) * 1, False),
        (WIDTH % 3 % 2, True),
        ((WIDTH + BATCH) % 3 % 2, True),
    ],
)
def test_each_point_gets_its_version(numbers: Any, table: bool) -> None:
    lines, sizes = lines_of(numbers.astype(np.int64))
    for at in range(RANGES.count):
        memory = {f"{SIZE_PREFIX}{text}": int(size.values[at]) for text, size in sizes.items()}
        label = interpret(lines, {}, memory)
        assert label == (f"p0.version{numbers[at]}" if label else None), at
        assert label or not numbers[at], at
    assert any(".byte" in line for line in lines) == table


def formulas(n: Any, b: Any) -> list[Any]:
    return [
        n * 3 + 5 - n // 4,
        ceil_div(n * b, 16) * 7 % 5,
        (100 - n) // (b + 1),
        -n + n * n,
        *(n * b, n * b * 4, n * b + 9, n * b // 16),
        least(n, 9 * b) + largest(n // 2, 7),
        chosen(n > 20, n // 3, 2 * n) + chosen(n == 5, b, 1),
        *(n * factor + b for factor in range(2, 40)),
        *((n * factor + b) * (n + 1) for factor in range(2, 40)),
    ]


def loads(size: Any, times: int) -> list[str]:
    """The lines of a phase that loads a size."""
    return [f"        {'ld':<23} a0, {SIZE_PREFIX}{size}"] * times


def domain_of_ranges() -> Domain:
    return Domain(RANGES.points, 17, np.ones(RANGES.count, bool))


def address_of(place: str, registers: dict[str, int]) -> int:
    """The address that an operand of a load means."""
    offset, _, base = place.rstrip(")").partition("(")
    return registers[base] + int(offset)


def assert_phases_load(sizes: Sequence[Any], times: int, points: Iterable[int]) -> SizeTable:
    """Assert that each size is right where phases load it; return the table of the sizes."""
    table = SizeTable({str(size): size for size in sizes}, [])
    phases = table.resolved([loads(size, times) for size in sizes])
    lines = table.code(RANGES.names, [], phases)
    for at in points:
        given = {name: int(values[at]) for name, values in RANGES.points.items()}
        memory = {f"{SHAPE_WORD * number}(a7)": given[name] for number, name in enumerate(RANGES.names)}
        state = {"sp": 1 << 16}
        interpret(lines, state, memory)
        addresses = [address_of(place, state) for place in table.places.values()]
        assert addresses == [state["sp"] + SHAPE_WORD * number for number in range(len(addresses))]
        assert state["sp"] + table.bytes == 1 << 16
        for size, phase in zip(sizes, phases, strict=True):
            registers: dict[str, int] = {}
            interpret(phase, registers, memory)
            assert registers["a0"] == size.values[at], size
    return table


@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("make", [formulas, lambda n, b: list(reversed(formulas(n, b)))])
def test_phases_load_what_the_sizes_are(make: Callable[[Any, Any], list[Any]], times: int) -> None:
    """More sizes than registers, most of them computed from others; some are computed where they are
    needed."""
    domain = domain_of_ranges()
    sizes = [each for each in make(dimension(domain, "width"), dimension(domain, "batch")) if each]
    assert len(assert_phases_load(sizes, times, range(0, RANGES.count, 7)).sizes) > 26


def test_many_sizes_take_a_second_register() -> None:
    domain = domain_of_ranges()
    n, b = dimension(domain, "width"), dimension(domain, "batch")
    sizes = [n * factor + b for factor in range(2, 1020)]
    table = assert_phases_load(sizes, 2, [0, RANGES.count - 1])
    assert {place.partition("(")[2] for place in table.places.values()} == {"tp)", "ra)"}
    offsets = {int(place.partition("(")[0]) for place in table.places.values()}
    assert offsets <= set(range(-2048, 2048))


def test_too_many_sizes_are_refused() -> None:
    domain = domain_of_ranges()
    n, b = dimension(domain, "width"), dimension(domain, "batch")
    sizes = [n * factor + b * b for factor in range(2, 1040)]
    with pytest.raises(GraphError, match=r"the program needs 10\d\d sizes; at most 1024 are possible"):
        SizeTable({str(size): size for size in sizes}, [])


FORMULAS = st.recursive(
    st.sampled_from(["n", "b"]),
    lambda inner: st.one_of(
        st.tuples(st.sampled_from(["add", "sub", "least", "ceil"]), inner, inner),
        st.tuples(st.sampled_from(["plus", "times", "over"]), inner, st.integers(1, 9)),
    ),
    max_leaves=9,
)


def made(formula: Any, n: Any, b: Any) -> Any:
    """The size that a formula is."""
    if isinstance(formula, str):
        return n if formula == "n" else b
    op, left, right = formula
    one = made(left, n, b)
    other = right if isinstance(right, int) else made(right, n, b)
    rules: dict[str, Callable[[], Any]] = {
        **{"add": lambda: one + other, "plus": lambda: one + other, "sub": lambda: one - other},
        **{"times": lambda: one * other, "over": lambda: largest(one, 0) // other},
        **{"least": lambda: least(one, other), "ceil": lambda: ceil_div(largest(one, 1), largest(other, 1))},
    }
    return rules[op]()


@given(st.lists(FORMULAS, min_size=1, max_size=12), st.integers(1, 2))
def test_any_sizes_are_what_they_should_be(formulas: list[Any], times: int) -> None:
    """The sizes come from several domains, so equal ones may have been computed differently."""
    sizes = []
    for formula in formulas:
        domain = domain_of_ranges()
        sizes.append(made(formula, dimension(domain, "width"), dimension(domain, "batch")))
    assert_phases_load([size for size in sizes if isinstance(size, Size)], times, [0, 41, RANGES.count - 1])


def test_a_size_that_is_needed_once_is_computed_there() -> None:
    domain = domain_of_ranges()
    n = dimension(domain, "width")
    table = SizeTable({str(size): size for size in (n, n * 8, n * 3)}, [])
    phases = table.resolved([[*loads(n, 1), *loads(n * 8, 1), *loads(n * 3, 1)]])
    assert [line.split()[0] for line in phases[0]] == ["ld", "ld", "slli", "ld"]
    stored = [line for line in table.code(RANGES.names, [], phases) if line.split()[0] == "sd"]
    assert len(stored) == 2


def test_sizes_that_are_equal_everywhere_are_one() -> None:
    domain, other = domain_of_ranges(), domain_of_ranges()
    n, same = dimension(domain, "width"), dimension(other, "width")
    one, another = n * 6 - n * 2, same * 4
    assert str(one) != str(another)
    table = SizeTable({str(size): size for size in (one, another)}, [])
    ((first, second),) = table.resolved([[*loads(one, 1), *loads(another, 1)]])
    assert first.split()[:3] == second.split()[:3]
