"""Programs of several chips in prime fields: elements go over the links with their bytes."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial

import pytest

from chip_nets import on_chips
from compiler.graph import Graph, GraphError
from compiler.tools.verification.findings import lines
from compiler.tools.verification.prove import prove
from compiler_harness import draw, graph, ints
from program_mutants import Mutant
from sharded_nets import Net, mlp, normalized_first
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
        pytest.param(normalized_first, (2, 2), "sp=2,tp=2", marks=pytest.mark.long),
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


def attention(scale: bool) -> Graph:
    """Attention with 32 columns a head, whose scale is no power of two; it is a constant, or unsaid."""
    net = Net(16, 64)
    if scale:
        net.attention("x", 2)
    else:
        parts = [net.product("x", 64, 64) for _ in range(3)]
        net.product(net.node("Attention", *parts, q_num_heads=2, kv_num_heads=2), 64, 64)
    return net.graph()


def test_a_scale_of_attention_that_is_a_constant_is_a_power_of_two_in_the_twin() -> None:
    found = prove(on_chips(attention(scale=True), 2, 1, "tp=2"))
    assert found.holds, lines(found)


def test_factors_that_chips_would_round_are_refused() -> None:
    with pytest.raises(
        GraphError, match=r"has the factor 0\.17.*: on several chips it must be a power of two"
    ):
        prove(on_chips(attention(scale=False), 2, 1, "tp=2"))


@pytest.mark.parametrize(("made", "degrees"), [(images, "dp=2"), (lambda: mlp(rows=16, columns=128), "tp=2")])
def test_a_product_that_lacks_a_term_is_wrong(made: Callable[[], Graph], degrees: str) -> None:
    program = on_chips(made(), 2, 1, degrees)
    lines_ = enumerate(program.text.splitlines(), 1)
    number = next(at for at, line in lines_ if re.search(r"ne\.gemm\.fp16.*\bk=\d", line))
    less = partial(re.sub, r"\bk=(\d+)", lambda at: f"k={int(at[1]) - 1}")
    found = prove(Mutant("", number, less).of(program))
    assert found.differences
    assert re.search(r"of tile \d+ of chip \d", lines(found)[0]), lines(found)
