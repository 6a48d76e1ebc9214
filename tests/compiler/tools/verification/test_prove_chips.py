"""Programs of several chips in prime fields: elements go over the links with their bytes."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from chip_nets import on_chips
from compiler.graph import Graph, GraphError
from compiler.tools.verification.findings import lines
from compiler.tools.verification.prove import prove
from compiler_harness import draw, graph, ints
from program_mutants import Mutant
from sharded_nets import mlp, normalized_first
from stage_nets import layers
from token_nets import encoder


def images() -> Graph:
    """Images of a batch: a convolution, a pool, a product."""
    nodes = [
        ("Conv", ["x", "w"], ["a"], {"pads": (1, 1, 1, 1)}),
        ("Relu", ["a"], ["b"], {}),
        ("GlobalAveragePool", ["b"], ["c"], {}),
        ("Reshape", ["c", "s"], ["d"], {}),
        ("Gemm", ["d", "v", "u"], ["y"], {"transB": 1}),
    ]
    weights = {"w": draw(16, 3, 3, 3), "s": ints(4, 16), "v": draw(10, 16), "u": draw(10)}
    return graph(nodes, {"x": (4, 3, 12, 12)}, weights)


@pytest.mark.parametrize(
    ("made", "mesh", "degrees"),
    [
        (images, (2, 1), "dp=2"),
        (lambda: mlp(rows=16, columns=128), (2, 1), "tp=2"),
        pytest.param(images, (2, 2), "dp=2,tp=2", marks=pytest.mark.long),
        pytest.param(encoder, (2, 1), "sp=2", marks=pytest.mark.long),
        pytest.param(lambda: layers(3, 4, 8, 64), (2, 1), "pp=2", marks=pytest.mark.long),
    ],
)
def test_programs_of_several_chips_are_proved(
    made: Callable[[], Graph], mesh: tuple[int, int], degrees: str
) -> None:
    network = made()
    found = prove(on_chips(network, *mesh, degrees))
    assert found.holds, lines(found)
    assert found.proved == {tensor.name: tensor.size for tensor in network.outputs}


def test_factors_that_chips_would_round_are_refused() -> None:
    """The scale of attention with 32 columns a head is no power of two."""
    with pytest.raises(
        GraphError, match=r"has the factor 0\.17.*: on several chips it must be a power of two"
    ):
        prove(on_chips(normalized_first(), 2, 1, "tp=2"))


@pytest.mark.parametrize(("made", "degrees"), [(images, "dp=2"), (lambda: mlp(rows=16, columns=128), "tp=2")])
def test_a_product_that_lacks_a_term_is_wrong(made: Callable[[], Graph], degrees: str) -> None:
    program = on_chips(made(), 2, 1, degrees)
    lines_ = enumerate(program.text.splitlines(), 1)
    number, line = next((at, line) for at, line in lines_ if re.search(r"ne\.gemm\.fp16.*\bk=\d", line))
    less = re.sub(r"\bk=(\d+)", lambda at: f"k={int(at[1]) - 1}", line)
    found = prove(Mutant("", number, less).of(program))
    assert found.differences
    assert re.search(r"of tile \d+ of chip \d", lines(found)[0]), lines(found)
