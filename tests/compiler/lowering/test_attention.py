"""Attention in one phase, against the binary64 reference."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from compiler.evaluation.infer import infer_node
from compiler.graph import Array, Description, Graph, GraphError, Node, Tensor
from compiler_harness import assert_right, draw, small_machine


def check(
    shapes: tuple[tuple[int, ...], ...],
    mask: Array | None = None,
    dtype: str = "fp32",
    tiles: int = 4,
    spm: int | None = None,
    scale: float = 0.25,
    spread: float = 1.0,
    **attrs: Any,
) -> None:
    names = ("q", "k", "v")
    constants = {} if mask is None else {"mask": mask}
    node = Node("FusedAttention", "n0", (*names, *constants), ("y",), {"scale": scale, **attrs})
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


@pytest.mark.long
@pytest.mark.parametrize("dtype", ["fp32", "fp16", "bf16"])
def test_keys_in_blocks(dtype: str) -> None:
    """The largest score of most queries is in another block than the first."""
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


@pytest.mark.long
@pytest.mark.parametrize("dtype", ["fp32", "tf32", "fp16", "bf16"])
@pytest.mark.parametrize("tiles", [1, 16])
@pytest.mark.parametrize("mask", [None, causal(128), draw(3, 1, 128)], ids=["none", "causal", "heads"])
def test_capped_scores(mask: Array | None, tiles: int, dtype: str) -> None:
    """Keys in blocks that do not all stay, and in blocks that do."""
    for spm in (None, 0x30000 if dtype in ("fp16", "bf16") else 0x50000):
        check(qkv((2, 3), 128, 128, 16, 24), mask, dtype, tiles, spm, spread=2.0, softcap=1.5)


@pytest.mark.parametrize("dtype", ["fp32", "tf32", "fp16", "bf16"])
@pytest.mark.parametrize("spm", [None, 0x1C000])
def test_queries_that_see_no_key(spm: int | None, dtype: str) -> None:
    """Their results are 0: the masks hide all keys of some queries, and all keys but one of others."""
    hidden = np.random.default_rng(7).random((3, 70, 70)) < 0.5
    hidden[:, 3:9] = True
    hidden[:, 5, 40] = False
    hidden[1] = True
    mask = np.where(hidden, -np.inf, 0).astype(np.float32)
    check(qkv((2, 3), 70, 70, 16, 16), mask, dtype, spm=spm, zero_rows=1)


# --- matrices in another order than their numbers ----------------------------------------------------------


def heads(batch: int, rows: int, count: int, d: int, columns: int, first: int = 0) -> tuple[int, ...]:
    """Heads [batch, count, rows, d] that are columns from ``first`` of [batch, rows, columns]."""
    return (first, batch, count, rows, d, rows * columns, d, columns, 1)


@pytest.mark.parametrize("dtype", ["fp32", "fp16", "bf16"])
@pytest.mark.parametrize("spm", [None, 0x1A000])
def test_heads_in_the_columns_of_one_matrix(dtype: str, spm: int | None) -> None:
    """Q, K and V are columns of three operands of different widths; the result's heads are side by side."""
    shapes = ((2, 70, 100), (2, 33, 80), (2, 33, 130))
    views = {
        "view_q": heads(2, 70, 3, 24, 100, 20),
        "view_k": heads(2, 33, 3, 24, 80),
        "view_v": heads(2, 33, 3, 40, 130, 10),
    }
    check(shapes, dtype=dtype, spm=spm, perm=(0, 2, 1, 3), **views)


@pytest.mark.parametrize("dtype", ["fp32", "fp16"])
def test_queries_that_share_keys(dtype: str) -> None:
    """Three groups of two heads of queries; the keys of a group exist once."""
    shared = (0, 3, 2, 50, 16, 800, 0, 16, 1)
    check(((3, 2, 70, 16), (3, 50, 16), (3, 50, 16)), draw(2, 70, 50), dtype, view_k=shared, view_v=shared)


@pytest.mark.parametrize(
    ("views", "text"),
    [
        ({"view_q": heads(1, 9, 2, 8, 17)}, "view_q"),  # beyond the end
        ({"view_k": (0, 1, 2, 9, 8, 144, 1, 16, 2)}, "view_k"),  # channels apart
        ({"view_v": (0, 8, 1)}, "view_v"),  # no matrix
        ({"perm": (0, 1, 3, 2)}, "perm"),
        ({"perm": (0, 1, 1, 3)}, "perm"),
        ({"view_k": heads(1, 9, 2, 4, 16)}, "must agree"),
    ],
)
def test_views_that_are_refused(views: dict[str, tuple[int, ...]], text: str) -> None:
    with pytest.raises(GraphError, match=text):
        check(((1, 2, 9, 8), (1, 2, 9, 8), (1, 2, 9, 8)), **views)
