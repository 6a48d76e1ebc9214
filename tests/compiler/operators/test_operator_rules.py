"""Refusals of operators, with the exact message; every rule of every operator has a case here."""

from __future__ import annotations

import re

import pytest

from compiler.operators import OPERATORS
from learning_refusals import LEARNING_REFUSALS
from microsoft_refusals import MICROSOFT_REFUSALS
from node_refusal import Refusal, W, X, check_refused, identity
from operator_refusals import MORE_REFUSALS
from paths import ROOT

DOCUMENT = ROOT / "docs" / "operators.md"

REFUSALS = [
    *MORE_REFUSALS,
    *LEARNING_REFUSALS,
    *MICROSOFT_REFUSALS,
    Refusal(
        "GlobalAveragePool", [(2, 3, 0)], {}, "The spatial axes must not be empty; found shape [2, 3, 0]"
    ),
    Refusal("Conv", [X, (6, 4, 3, 0)], {}, "W must have at least one element; found shape [6, 4, 3, 0]"),
    Refusal("Conv", [X, (6, 4, 3)], {}, "W must have the rank of X; found shape [6, 4, 3]"),
    Refusal(
        "Conv",
        [X, W],
        {"group": 2},
        "The channels of X (axis 1) must be group times axis 1 of W; "
        "found 4 channels, group 2, W [6, 4, 3, 3]",
    ),
    Refusal(
        "Conv",
        [X, (3, 2, 3, 3)],
        {"group": 2},
        "Axis 0 of W must be a multiple of group; found W [3, 2, 3, 3] with group 2",
    ),
    Refusal(
        "Conv",
        [X, W],
        {"kernel_shape": (5, 5)},
        "kernel_shape, if given, must be the spatial shape of W; found kernel_shape [5, 5], W [6, 4, 3, 3]",
    ),
    Refusal(
        "Conv",
        [X, W, (4,)],
        {},
        "B must have one element per output channel, shape [M]; found shape [4] with M = 6",
    ),
    Refusal(
        "Conv",
        [X, W],
        {"strides": (2,)},
        "kernel_shape, strides and dilations must have one entry per spatial axis, pads two; "
        "found strides [2] with an image of [8, 8]",
    ),
    Refusal(
        "Conv",
        [X, W],
        {"pads": (1, 1, 1, 1), "auto_pad": "SAME_UPPER"},
        "pads can only be given when auto_pad is NOTSET; found pads [1, 1, 1, 1] with auto_pad SAME_UPPER",
    ),
    Refusal(
        "Conv",
        [X, W],
        {"dilations": (4, 5), "pads": (0, 0, 1, 1)},
        "The dilated kernel must not be larger than the padded image; "
        "found a window of [9, 11] over an image of [9, 9]",
    ),
    Refusal(
        "AveragePool",
        [X],
        {"kernel_shape": (2, 2), "pads": (2, 0, 0, 0)},
        "Every window must hold at least one element that is not padding; "
        "found output position 0 of spatial axis 0",
    ),
    Refusal(
        "GlobalAveragePool",
        [(2, 3)],
        {},
        "X must have rank at least 3 (batch, channels, space); found shape [2, 3]",
    ),
    Refusal(
        "Add",
        [(2, 3), (2, 4)],
        {},
        "The shapes of the operands must broadcast to a common shape, aligned at the last axis; "
        "found [2, 3] and [2, 4]",
    ),
    Refusal("Gemm", [(2, 3, 4), (4, 5)], {}, "A must have rank 2 (a matrix); found shape [2, 3, 4]"),
    Refusal("Gemm", [(2, 3), (3,)], {}, "B must have rank 2 (a matrix); found shape [3]"),
    Refusal(
        "Gemm",
        [(2, 3), (3, 5)],
        {"transB": 1},
        "The columns of A must be as many as the rows of B, after transA and transB; found [2, 3] and [5, 3]",
    ),
    Refusal(
        "Gemm",
        [(2, 3), (3, 5), (2,)],
        {},
        "C must broadcast to the shape [M, N] of the product; found [2] with [M, N] = [2, 5]",
    ),
    Refusal("MatMul", [(3,), ()], {}, "The operands must have rank 1 or more; found scalar 'i1'"),
    Refusal(
        "MatMul",
        [(2, 3), (4, 5)],
        {},
        "The last axis of A must be as long as the last but one axis of B (the only one of a vector); "
        "found [2, 3] and [4, 5]",
    ),
    Refusal(
        "MatMul",
        [(2, 1, 3), (4, 3, 1)],
        {},
        "The axes before the last two must broadcast to a common shape; found [2, 1, 3] and [4, 3, 1]",
    ),
    Refusal("ReduceSum", [X, [[1]]], {}, "The operand axes must have rank 1; found shape [1, 1]"),
    Refusal(
        "ReduceMax",
        [X, [1, -3]],
        {},
        "axes must lie in [-r, r-1], r being the rank of data, and must not repeat; "
        "found axes [1, -3] with r = 4",
    ),
    Refusal(
        "ReduceMean",
        [(2, 0)],
        {},
        "The reduced axes must not be empty: no elements have no mean; found shape [2, 0] over axis 1",
    ),
    Refusal(
        "BatchNormalization",
        [(0, 4), (4,), (4,), (4,), (4,)],
        {"training_mode": 1},
        "With training_mode 1, X must have elements; found shape [0, 4]",
    ),
    Refusal(
        "BatchNormalization",
        [(4,), (4,), (4,), (4,), (4,)],
        {},
        "X must have rank at least 2 (batch, channels, ...); found shape [4]",
    ),
    Refusal(
        "BatchNormalization",
        [X, (4,), (1,), (4,), (4,)],
        {},
        "scale, B, input_mean and input_var must have one element per channel, shape [C]; "
        "found 'i2' of shape [1] with C = 4",
    ),
    Refusal(
        "LayerNormalization",
        [(2, 3), (3,)],
        {"axis": 2},
        "axis must lie in [-r, r-1], r being the rank of the first operand; found axis 2 with r = 2",
    ),
    Refusal(
        "LayerNormalization",
        [(2, 3), (3,)],
        {"stash_type": 16},
        "stash_type must be 1 (float32); found stash_type 16",
    ),
    Refusal(
        "LayerNormalization",
        [(2, 3), (2,)],
        {},
        "Scale and B must broadcast to the shape of X; found 'i1' of shape [2] with X of shape [2, 3]",
    ),
    Refusal("Softmax", [(0, 3)], {}, "The first operand must have at least one element; found shape [0, 3]"),
    Refusal("Reshape", [(2, 3), [[6]]], {}, "The operand shape must have rank 1; found rank 2"),
    Refusal(
        "Reshape",
        [(2, 3), [-1, -1]],
        {},
        "The entries of shape must be -1 (at most once, not together with an allowed 0), 0 or a size; "
        "found shape [-1, -1]",
    ),
    Refusal(
        "Reshape",
        [(2, 3), [4, -1]],
        {},
        "The new shape must hold as many elements as data; found [2, 3] to [4, -1]",
    ),
    Refusal(
        "Reshape", [(6,), [6, 0]], {}, "The new shape must hold as many elements as data; found [6] to [6, 0]"
    ),
    Refusal(
        "Flatten",
        [X],
        {"axis": 5},
        "axis must lie in [-r, r], r being the rank of input; found axis 5 with r = 4",
    ),
    Refusal(
        "Transpose",
        [X],
        {"perm": (0, 1, 2, 2)},
        "perm must name every axis of data once, counted from the front; found perm [0, 1, 2, 2] with rank 4",
    ),
    Refusal(
        "Concat",
        [(2, 3), (2, 3, 1)],
        {"axis": 0},
        "The operands must have one rank and agree in all sizes but that along axis; "
        "found [2, 3] and [2, 3, 1] with axis 0",
    ),
    Refusal(
        "Concat",
        [(2, 3), (2, 4)],
        {"axis": -2},
        "The operands must have one rank and agree in all sizes but that along axis; "
        "found [2, 3] and [2, 4] with axis -2",
    ),
    Refusal(
        "Slice",
        [X, [0, 1], [2]],
        {},
        "starts, ends, axes and steps must have rank 1 and one length; found shapes [2], [1]",
    ),
    Refusal(
        "Slice",
        [X, [0], [2], [4]],
        {},
        "axes must lie in [-r, r-1], r being the rank of data, and must not repeat; "
        "found axes [4] with r = 4",
    ),
    Refusal("Slice", [X, [0], [2], None, [0]], {}, "steps must not be 0; found steps [0]"),
    Refusal(
        "Pad",
        [X, [0] * 4, None, [1, 1]],
        {},
        "axes must lie in [-r, r-1], r being the rank of data, and must not repeat; "
        "found axes [1, 1] with r = 4",
    ),
    Refusal(
        "Pad",
        [X, [0] * 6],
        {},
        "pads must have two entries per axis, or per element of axes if given; found shape [6] with 4 axes",
    ),
    Refusal(
        "Pad", [("int64", (3,)), [1, 1], [0, 0]], {}, "constant_value must have one element; found shape [2]"
    ),
    Refusal(
        "Pad",
        [(3,), [-2, -2]],
        {},
        "Negative pads must not cut off more than there is; found pads -2 and -2 on axis 0 of size 3",
    ),
]


@pytest.mark.parametrize("refusal", REFUSALS, ids=identity)
def test_refused_with_the_exact_message(refusal: Refusal) -> None:
    check_refused(refusal)


def test_every_rule_has_a_refusal() -> None:
    public = (record for record in OPERATORS.values() if not record.internal)
    texts = {rule.text for record in public for rule in record.rules}
    unseen = {
        text for text in texts if not any(case.message.startswith(text + "; found ") for case in REFUSALS)
    }
    assert unseen == set()


def section(name: str) -> list[str]:
    """The lines of an operator's section in the document."""
    text = DOCUMENT.read_text(encoding="utf-8")
    return text.partition(f"### {name}\n")[2].partition("\n### ")[0].splitlines()


def test_the_document_has_a_section_for_each_operator() -> None:
    headings = re.findall(r"(?m)^### ([\w.]+)$", DOCUMENT.read_text(encoding="utf-8"))
    assert headings == sorted(name for name, record in OPERATORS.items() if not record.internal)
    for name in headings:
        assert any(line.startswith("- computed by: ") for line in section(name)), name
        assert sum(line.startswith("- rule: ") for line in section(name)) == len(OPERATORS[name].rules)


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("Conv", "- computed by: matrix engine"),
        ("Reshape", "- computed by: no code: the same bytes in another shape."),
        ("GlobalMaxPool", "- computed by: in terms of ReduceMax."),
        ("BitwiseXor", "- computed by: kernel core, element by element."),
        ("LeakyRelu", "- attribute `alpha`: float; default 0.01."),
    ],
)
def test_the_document_says_what_computes_an_operator(name: str, line: str) -> None:
    assert any(found.startswith(line.rstrip(".")) for found in section(name))
