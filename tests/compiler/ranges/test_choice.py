"""The choice between versions of a phase, and the sizes at the start, executed for all sizes of a range."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from asm.image import Dimension
from compiler.codegen.program import SHAPE_WORD
from compiler.codegen.registers import SIZE_PREFIX
from compiler.evaluation.sizes import Domain, Size, chosen, dimension, largest, least
from compiler.evaluation.sizes.ranges import Ranges
from compiler.passes.ranges.choice import chosen_version
from compiler.passes.ranges.table import SizeTable
from core_steps import interpret
from tx8isa.numbers.division import ceil_div

RANGES = Ranges((Dimension("width", 3, 8, 40), Dimension("batch", 1, 1, 4)))
WIDTH, BATCH = RANGES.points["width"], RANGES.points["batch"]


def lines_of(numbers: Any) -> tuple[list[str], dict[str, Size]]:
    """The choice between versions, by their number at each point, and the sizes that it loads."""
    context: Any = SimpleNamespace(ranges=SimpleNamespace(ranges=RANGES), size_loads={})
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
        least(n, 9 * b) + largest(n // 2, 7),
        chosen(n > 20, n // 3, 2 * n) + chosen(n == 5, b, 1),
        *(n * factor + b for factor in range(2, 40)),
        *((n * factor + b) * (n + 1) for factor in range(2, 40)),
    ]


@pytest.mark.parametrize("make", [formulas, lambda n, b: list(reversed(formulas(n, b)))])
def test_the_shape_program_computes_what_the_sizes_are(make: Callable[[Any, Any], list[Any]]) -> None:
    """More sizes than registers, most of them made of others."""
    domain = Domain(RANGES.points, 17, np.ones(RANGES.count, bool))
    sizes = [each for each in make(dimension(domain, "width"), dimension(domain, "batch")) if each]
    table = SizeTable({str(size): size for size in sizes}, [])
    lines = table.code(RANGES.names, [])
    assert len(table.sizes) > 26
    for at in range(0, RANGES.count, 7):
        given = {name: int(values[at]) for name, values in RANGES.points.items()}
        memory = {f"{SHAPE_WORD * number}(a7)": given[name] for number, name in enumerate(RANGES.names)}
        interpret(lines, {"sp": 4096, "tp": 0}, memory)
        for size in sizes:
            assert memory[table.places[str(size)]] == size.values[at], size
