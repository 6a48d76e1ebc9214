"""Every operation of the table, in the forms that JAX writes, against the results of JAX."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from compiler.evaluation.reference import run_reference
from compiler.frontend.stablehlo.control import CONTROL
from compiler.frontend.stablehlo.operations import REWRITES
from paths import ROOT
from stablehlo_cases import case_arrays, case_names, case_text, fed, graph_of_text

CASES = list(case_names())

BY_HAND = {
    *("stablehlo.if", "stablehlo.custom_call", "stablehlo.batch_norm_inference", "stablehlo.dot"),
    *(
        "stablehlo.logistic",
        "stablehlo.cbrt",
        "stablehlo.tan",
        "chlo.tan",
        "chlo.is_pos_inf",
        "chlo.is_neg_inf",
        "chlo.is_inf",
    ),
}
"""Operations that JAX does not write in a case; ``test_by_hand`` has them."""


@pytest.mark.parametrize(("family", "name"), CASES, ids=[f"{family}-{name}" for family, name in CASES])
def test_a_case_gives_what_jax_gives(family: str, name: str, tmp_path: Path) -> None:
    graph = graph_of_text(tmp_path, case_text(family, name))
    given, expected = case_arrays(family, name)
    found = list(run_reference(graph, fed(graph, given)).values())
    assert len(found) == len(expected)
    for tensor, a, b in zip(graph.outputs, found, expected, strict=True):
        assert (tensor.dtype, a.shape) == (b.dtype.name, b.shape)
        if tensor.is_float:
            assert np.allclose(a, b.astype(np.float64), rtol=2e-5, atol=2e-5, equal_nan=True)
        else:
            assert np.array_equal(a, b)


def test_every_operation_has_a_case() -> None:
    texts = "".join(case_text(family, name) for family, name in CASES)
    seen = set(re.findall(r'"((?:stablehlo|chlo|func)\.\w+)"\(', texts))
    assert {*REWRITES, *CONTROL} - seen - BY_HAND == set()
    assert seen - {*REWRITES, *CONTROL} == {"stablehlo.return", "func.func", "func.return"}


def test_the_page_names_every_operation() -> None:
    page = (ROOT / "docs" / "stablehlo.md").read_text()
    table = page.split("## Operations")[1].split("## What is refused")[0]
    named = set(re.findall(r"`(\w+)`", table))
    assert {name.rpartition(".")[2] for name in (*REWRITES, *CONTROL)} - named == set()
