"""Attention in one phase, against the binary64 reference."""

from __future__ import annotations

import numpy as np
import pytest
from compiler_harness import assert_right, draw, small_machine

from compiler.graph import Array, Description, Graph, Node, Tensor
from compiler.infer import infer_node


def check(
    shapes: tuple[tuple[int, ...], ...], mask: Array | None = None, dtype: str = "fp32", tiles: int = 4,
    spm: int | None = None, scale: float = 0.25, spread: float = 1.0,
) -> None:  # fmt: skip
    names = ("q", "k", "v")
    constants = {} if mask is None else {"mask": mask}
    node = Node("FusedAttention", "n0", (*names, *constants), ("y",), {"scale": scale})
    inputs = tuple(Tensor(name, "float32", shape) for name, shape in zip(names, shapes, strict=True))
    description = Description("test", "test", 20, inputs, (), constants, (node,))
    tensors = {tensor.name: tensor for tensor in inputs}
    tensors |= {name: Tensor(name, "float32", array.shape) for name, array in constants.items()}
    finished = infer_node(description, node, tensors)
    g = Graph("test", 20, inputs, (tensors["y"],), constants, (finished,), tensors)
    data = {t.name: draw(*t.shape, seed=i, scale=spread) for i, t in enumerate(inputs)}
    assert_right(g, dtype, tiles, small_machine(spm) if spm else None, data)


def qkv(heads: tuple[int, ...], m: int, n: int, d: int, e: int) -> tuple[tuple[int, ...], ...]:
    return (*heads, m, d), (*heads, n, d), (*heads, n, e)


@pytest.mark.parametrize("dtype", ["fp32", "tf32", "fp16", "bf16"])
@pytest.mark.parametrize(
    "shapes",
    [
        qkv((), 1, 1, 1, 1),
        qkv((3,), 19, 19, 16, 16),
        qkv((2, 3), 70, 33, 40, 24),
        qkv((1,), 200, 129, 64, 64),
        qkv((5,), 64, 100, 3, 130),
    ],
    ids=str,
)
def test_all_keys_at_once(shapes: tuple[tuple[int, ...], ...], dtype: str) -> None:
    check(shapes, dtype=dtype)


@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
@pytest.mark.parametrize("tiles", [1, 3, 16])
def test_tiles_take_heads_and_blocks(tiles: int, dtype: str) -> None:
    check(qkv((3,), 150, 65, 32, 32), dtype=dtype, tiles=tiles)


@pytest.mark.parametrize("dtype", ["fp32", "fp16", "bf16"])
def test_keys_in_blocks(dtype: str) -> None:
    """The running maximum grows over the blocks for most queries."""
    check(qkv((2,), 70, 300, 24, 40), dtype=dtype, spm=0x1A000)


def test_scores_that_would_overflow() -> None:
    check(qkv((2,), 40, 50, 16, 16), dtype="fp16", scale=1.0, spread=6.0)


def causal(n: int) -> Array:
    return np.triu(np.full((n, n), -np.inf, np.float32), 1)


@pytest.mark.parametrize("dtype", ["fp32", "fp16", "bf16"])
@pytest.mark.parametrize("spm", [None, 0x1C000])
@pytest.mark.parametrize(
    "mask",
    [
        causal(70),
        draw(70),
        draw(2, 1, 70, 70),
        draw(3, 1, 70),
        np.where(np.arange(70) < 50, 0, -1e9).astype(np.float32).reshape(1, 1, 1, 70),
        draw(70, 1),
    ],
    ids=["causal", "vector", "batches", "heads", "padding", "per query"],
)
def test_masks(mask: Array, spm: int | None, dtype: str) -> None:
    check(qkv((2, 3), 70, 70, 16, 16), mask, dtype, spm=spm)
