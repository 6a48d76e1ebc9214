"""The code of an image for a range of sizes is at most half as large again as that of one size."""

from __future__ import annotations

from typing import Any

import pytest

import tx8
from range_costs import CASES, code_bytes
from range_models import one_node

MOST = 1.5


def times_the_code(model: Any, dims: Any, shapes: Any, **options: Any) -> float:
    """Return the size of the code for a range, relative to the code for one size."""
    ranged = tx8.compile(model, dtype="fp16", dims=dims, **options)
    alone = tx8.compile(model, dtype="fp16", shapes=shapes, **options)
    return code_bytes(ranged) / code_bytes(alone)


_FAR = pytest.mark.xfail(
    strict=True, reason="1.60 times: alone, products of one size have far fewer commands than in a range"
)


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "residency"),
    [
        pytest.param("encoder", "off", marks=_FAR),
        ("encoder", "on"),
        ("text_line", "off"),
        ("text_line", "on"),
    ],
)
def test_networks(name: str, residency: str) -> None:
    assert {*CASES} == {"encoder", "text_line"}
    case = CASES[name]()
    shapes = {key: value.shape for key, value in case.inputs(*case.sizes[0]).items()}
    assert times_the_code(case.model, case.dims, shapes, residency=residency) <= MOST


def test_one_operator() -> None:
    model = one_node("Relu", ["rows", 96])
    assert times_the_code(model, {"rows": (1, 100, 512)}, {"x": (100, 96)}) <= MOST
