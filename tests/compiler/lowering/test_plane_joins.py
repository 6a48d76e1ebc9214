"""Concat of images in planes: channels of several operands that share a plane of the result."""

from __future__ import annotations

import pytest

import compiler
from compiler.graph import Graph
from compiler_harness import NodeSpec, assert_right, draw, graph, small_machine, strict_outputs


def joined(channels: tuple[int, ...], size: int, images: int = 1) -> Graph:
    """Convolutions whose results a Concat joins, and a pool, so that all values are in planes."""
    names = [f"x{at}" for at in range(len(channels))]
    weights = {f"w{at}": draw(count, count, 1, 1, seed=at) for at, count in enumerate(channels)}
    convs: list[NodeSpec] = [("Conv", [name, f"w{at}"], [f"a{at}"], {}) for at, name in enumerate(names)]
    join: NodeSpec = ("Concat", [f"a{at}" for at in range(len(channels))], ["b"], {"axis": 1})
    pool: NodeSpec = ("MaxPool", ["b"], ["y"], {"kernel_shape": (3, 3), "pads": (1, 1, 1, 1)})
    shapes = {name: (images, count, size, size + 1) for name, count in zip(names, channels, strict=True)}
    return graph([*convs, join, pool], shapes, weights)


@pytest.mark.parametrize("dtype", ["fp16", "fp32"])
@pytest.mark.parametrize(
    ("channels", "size", "images"),
    [
        ((16, 16), 12, 1),
        ((32, 64, 32, 32), 9, 1),
        ((100, 30, 20), 7, 2),
        ((8, 3, 8), 11, 3),
        ((70, 70), 6, 1),
    ],
)
def test_operands_that_share_planes(channels: tuple[int, ...], size: int, images: int, dtype: str) -> None:
    made = joined(channels, size, images)
    assert_right(made, dtype)
    assert_right(made, dtype, tiles=3, machine=small_machine(0x10000))


def test_a_plane_is_put_together_in_the_scratchpad_where_it_has_many_positions() -> None:
    """Each tile stores its positions of both operands in one run, without hazards."""
    made = joined((16, 16), 24)
    program = compiler.compile(made, "fp16")
    strict_outputs(made, program)
    stores = [line for line in program.text.splitlines() if "wdma" in line and ".joined" in line]
    assert stores and all("stride0" not in line for line in stores)


def test_lanes_without_a_channel_are_zero() -> None:
    made = joined((16, 8, 12), 24)
    program = compiler.compile(made, "fp16", residency="off")
    assert ".joined" in program.text
    strict_outputs(made, program)


def test_a_few_positions_are_stored_where_they_belong() -> None:
    program = compiler.compile(joined((16, 16), 3), "fp16")
    assert ".joined" not in program.text
