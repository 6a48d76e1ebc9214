"""Small networks of tokens whose masks are inputs, and blocks with ONNX's own attention."""

from __future__ import annotations

from typing import Any

import numpy as np

from compiler.evaluation.infer import build_graph
from compiler.graph import Array, Description, Graph, Node, Tensor
from compiler_harness import draw, ints


def _graph(
    nodes: list[tuple[str, list[str], list[str], dict[str, Any]]],
    inputs: list[Tensor],
    outputs: list[str],
    constants: dict[str, Array],
) -> Graph:
    made = [Node(op, f"n{at}", tuple(a), tuple(b), attrs) for at, (op, a, b, attrs) in enumerate(nodes)]
    return build_graph(
        Description("test", "tokens", 24, tuple(inputs), tuple(outputs), constants, tuple(made))
    )


def encoder(batch: int = 1, rows: int = 16, columns: int = 64, heads: int = 4, words: int = 50) -> Graph:
    """Embeddings, attention like BERT's to the tokens that a mask allows, and a product of one row."""
    depth = columns // heads
    constants = {
        "table": draw(words, columns),
        "positions": draw(1, rows, columns, seed=1),
        "g": draw(columns, seed=2),
        "b": draw(columns, seed=3),
        "one": np.array(1, np.float32),
        "low": np.array(-1e4, np.float32),
        "scale": np.array(depth**-0.5, np.float32),
        "axes": ints(1, 2),
        "apart": ints(batch, rows, heads, depth),
        "flat": ints(batch, rows, columns),
        "first": np.array(0, np.int64),
        "p": draw(columns, columns, seed=4) / 8,
    }
    constants |= {name: draw(columns, columns, seed=5 + at) / 8 for at, name in enumerate("qkvo")}
    nodes: list[tuple[str, list[str], list[str], dict[str, Any]]] = [
        ("Gather", ["table", "tokens"], ["e0"], {}),
        ("Add", ["e0", "positions"], ["e1"], {}),
        ("LayerNormalization", ["e1", "g", "b"], ["e"], {}),
        ("Unsqueeze", ["mask", "axes"], ["m0"], {}),
        ("Cast", ["m0"], ["m1"], {"to": 1}),
        ("Sub", ["one", "m1"], ["m2"], {}),
        ("Mul", ["m2", "low"], ["m"], {}),
    ]
    for name, perm in (("q", (0, 2, 1, 3)), ("k", (0, 2, 3, 1)), ("v", (0, 2, 1, 3))):
        nodes += [
            ("MatMul", ["e", name], [f"{name}0"], {}),
            ("Reshape", [f"{name}0", "apart"], [f"{name}1"], {}),
            ("Transpose", [f"{name}1"], [f"{name}2"], {"perm": perm}),
        ]
    nodes += [
        ("MatMul", ["q2", "k2"], ["s0"], {}),
        ("Mul", ["s0", "scale"], ["s1"], {}),
        ("Add", ["s1", "m"], ["s2"], {}),
        ("Softmax", ["s2"], ["s3"], {}),
        ("MatMul", ["s3", "v2"], ["a0"], {}),
        ("Transpose", ["a0"], ["a1"], {"perm": (0, 2, 1, 3)}),
        ("Reshape", ["a1", "flat"], ["a2"], {}),
        ("MatMul", ["a2", "o"], ["a3"], {}),
        ("Add", ["a3", "e"], ["h0"], {}),
        ("LayerNormalization", ["h0", "g", "b"], ["h"], {}),
        ("Gather", ["h", "first"], ["c"], {"axis": 1}),
        ("MatMul", ["c", "p"], ["pooled"], {}),
    ]
    inputs = [Tensor(name, "int64", (batch, rows)) for name in ("tokens", "mask")]
    return _graph(nodes, inputs, ["h", "pooled"], constants)


def causal(
    rows: int = 16, heads: int = 4, groups: int = 2, depth: int = 16, masked: bool = False, flat: bool = False
) -> Graph:
    """Rotary embeddings by positions that are an input, and causal attention by ONNX's operator; groups share
    keys.

    ``masked``: an input is added to the scores. ``flat``: heads are columns.
    """
    columns, half = heads * depth, depth // 2
    angles = np.outer(np.arange(2 * rows), 10000.0 ** (-np.arange(half) / half))
    constants: dict[str, Array] = {
        "cos": np.asarray(np.cos(angles), np.float32),
        "sin": np.asarray(np.sin(angles), np.float32),
    }
    constants |= {"back": ints(1, rows, columns), "o": draw(columns, columns, seed=4) / 8}
    nodes: list[tuple[str, list[str], list[str], dict[str, Any]]] = []
    for name, count in (("q", heads), ("k", groups), ("v", groups)):
        constants |= {
            f"w{name}": draw(columns, count * depth, seed=count) / 8,
            f"apart{count}": ints(1, rows, count, depth),
        }
        nodes.append(("MatMul", ["x", f"w{name}"], [f"{name}0"], {}))
        turned = f"{name}0"
        if not flat:
            nodes += [
                ("Reshape", [turned, f"apart{count}"], [f"{name}1"], {}),
                ("Transpose", [f"{name}1"], [f"{name}2"], {"perm": (0, 2, 1, 3)}),
            ]
            turned = f"{name}2"
        attrs = {"num_heads": count} if flat else {}
        if name != "v":
            nodes.append(("RotaryEmbedding", [turned, "cos", "sin", "positions"], [f"{name}r"], attrs))
        else:
            nodes.append(("Identity", [turned], ["vr"], {}))
    attrs = {"is_causal": 1} | ({"q_num_heads": heads, "kv_num_heads": groups} if flat else {})
    nodes.append(("Attention", ["qr", "kr", "vr", *(["bias"] if masked else [])], ["a"], attrs))
    if flat:
        nodes.append(("MatMul", ["a", "o"], ["y"], {}))
    else:
        nodes += [
            ("Transpose", ["a"], ["a1"], {"perm": (0, 2, 1, 3)}),
            ("Reshape", ["a1", "back"], ["a2"], {}),
            ("MatMul", ["a2", "o"], ["y"], {}),
        ]
    inputs = [Tensor("x", "float32", (1, rows, columns)), Tensor("positions", "int64", (1, rows))]
    inputs += [Tensor("bias", "float32", (1, 1, rows, rows))] if masked else []
    return _graph(nodes, inputs, ["y"], constants)
