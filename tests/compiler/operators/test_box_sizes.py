"""Boxes and divisions of records are no larger than theory requires."""

from __future__ import annotations

import itertools
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from box_cases import PartCase
from box_draws import DRAWN, drawn
from compiler.graph import Array, Box
from compiler.operators.boxes.divisions import Following, divisions, followings, is_divisible

# --- not too much ----------------------------------------------------------------------------------------


def call(op: str, operands: str, known: tuple[str, ...] = (), outputs: int = 1, **attrs: Any) -> PartCase:
    """A call of ones of some shapes (``4x6``, ``()`` a number), of integers (``=3,1``); ``-`` is omitted."""
    arrays: dict[str, Array | None] = {}
    for at, text in enumerate(operands.split()):
        numbers = [int(number) for number in re.findall(r"-?\d+", text)]
        whole = np.array(numbers, np.int64) if "=" in text else np.ones(numbers, np.float32)
        arrays[f"x{at}"] = None if text == "-" else whole
    return PartCase(op, arrays, attrs, known, outputs)


_CONV = call("Conv", "1x8x20x20 16x8x3x3 16", pads=(1, 1, 1, 1))
_APART = call("Conv", "1x3x6x5 4x3x2x1", pads=(1, 0, 1, 0), strides=(2, 2))
_GROUPED = call("Conv", "1x8x20x20 16x2x1x1 16", group=4)
_POOL = call("MaxPool", "1x8x20x20", kernel_shape=(2, 2), strides=(2, 2))
_HEADS = call("Attention", "1x8x16x4 1x2x16x4 1x2x16x4")
_BAND, _SPARSE = np.eye(16, dtype=np.float32), np.zeros((16, 16), np.float32)
_SPARSE[[3, 12]] = 1
_LEFT = np.ones((4, 16), np.float32)
_BANDED, _THINNED = (PartCase("MatMul", {"a": _LEFT, "b": b}, known=["b"]) for b in (_BAND, _SPARSE))
_RESIZE = call("Resize", "1x2x16 - - =1,2,32", mode="linear")
_PAD, _BACKWARDS = call("Pad", "6 =2,3 ()"), call("Slice", "20 =19 =-30 =0 =-1")
TIGHT: list[tuple[PartCase, str, str]] = [
    (call("Add", "4x6 6"), "[1:2, 3:5]", "[1:2, 3:5] [3:5]"),
    (call("Add", "4x1 6"), "[1:2, 3:5]", "[1:2, 0:1] [3:5]"),
    (call("ReduceSum", "4x6 =1", keepdims=0), "[1:3]", "[1:3, 0:6] None"),
    (call("ReduceSum", "4x6 =1"), "[1:3, 0:1]", "[1:3, 0:6] None"),
    (call("Softmax", "4x6"), "[1:3, 2:3]", "[1:3, 0:6]"),
    (call("ArgMax", "4x6"), "[0:1, 2:3]", "[0:4, 2:3]"),
    (call("MatMul", "3x4x6 6x8"), "[1:2, 0:2, 3:5]", "[1:2, 0:2, 0:6] [0:6, 3:5]"),
    (call("MatMul", "6 3x6x8"), "[1:2, 3:5]", "[0:6] [1:2, 0:6, 3:5]"),
    (_BANDED, "[0:2, 3:5]", "[0:2, 3:5] [3:5, 3:5]"),
    (_THINNED, "[0:2, 3:5]", "[0:2, 0:16] [0:16, 3:5]"),
    (call("Gemm", "6x4 6x8 8", transA=1), "[1:2, 3:5]", "[0:6, 1:2] [0:6, 3:5] [3:5]"),
    (_CONV, "[0:1, 4:8, 5:10, 0:20]", "[0:1, 0:8, 4:11, 0:20] [4:8, 0:8, 0:3, 0:3] [4:8]"),
    (_CONV, "[0:1, 4:8, 0:5, 19:20]", "[0:1, 0:8, 0:6, 18:20] [4:8, 0:8, 0:3, 0:3] [4:8]"),
    (_GROUPED, "[0:1, 4:8, 5:10, 0:20]", "[0:1, 2:4, 5:10, 0:20] [4:8, 0:2, 0:1, 0:1] [4:8]"),
    (_POOL, "[0:1, 2:3, 1:3, 0:9]", "[0:1, 2:3, 2:6, 0:18]"),
    (call("ConvTranspose", "1x2x9 2x4x2"), "[0:1, 1:2, 4:8]", "[0:1, 0:2, 3:8] [0:2, 1:2, 0:2] None"),
    (call("GlobalAveragePool", "1x8x5x5"), "[0:1, 2:3, 0:1, 0:1]", "[0:1, 2:3, 0:5, 0:5]"),
    (call("Transpose", "2x3x4", perm=(2, 0, 1)), "[1:2, 0:2, 1:3]", "[0:2, 1:3, 1:2]"),
    (call("Reshape", "2x16x12x64 =2,16,768"), "[0:1, 2:9, 64:256]", "[0:1, 2:9, 1:4, 0:64] None"),
    (call("Reshape", "2x16x768 =2,16,12,64"), "[0:1, 2:9, 1:4, 0:64]", "[0:1, 2:9, 64:256] None"),
    (call("Reshape", "6x4 =4,6"), "[0:2, 0:6]", "[0:3, 0:4] None"),
    (call("Reshape", "6x4 =4,6"), "[1:2, 2:4]", "[2:3, 0:2] None"),
    (call("Concat", "4x2 4x3 4x5", axis=1), "[1:2, 1:4]", "[1:2, 1:2] [1:2, 0:2] None"),
    (call("Slice", "20 =3 =20 =0 =4"), "[1:3]", "[7:12] None None None None"),
    (_BACKWARDS, "[1:3]", "[17:19] None None None None"),
    (_PAD, "[0:4]", "[0:2] None [] None"),
    (_PAD, "[3:5]", "[1:3] None None None"),
    (_PAD, "[0:2]", "None None [] None"),
    (call("Pad", "6 =2,3", mode="reflect"), "[0:2]", "[1:3] None None None"),
    (call("Split", "9 =2,3,4", outputs=3), "[1:2]", "[1:2] None"),
    (call("Gather", "9x4 =5,3,7"), "[0:2, 1:2]", "[0:9, 1:2] [0:2]"),
    (call("Gather", "9x4 =5,3,7", known=("x1",)), "[0:2, 1:2]", "[3:6, 1:2] [0:2]"),
    (call("Expand", "1x4 =3,4"), "[0:2, 1:2]", "[0:1, 1:2] None"),
    (call("Tile", "3x4 =2,2"), "[1:2, 5:7]", "[1:2, 1:3] None"),
    (call("BatchNormalization", "2x8x4 8 8 8 8"), "[0:1, 2:4, 0:3]", "[0:1, 2:4, 0:3]" + " [2:4]" * 4),
    (call("LayerNormalization", "8x16 16"), "[2:4, 0:8]", "[2:4, 0:16] [0:8] None"),
    (call("NormalizedGroups", "1x8x4 8 8", groups=4), "[0:1, 3:4, 0:1]", "[0:1, 2:4, 0:4] [3:4] [3:4]"),
    (_HEADS, "[0:1, 4:6, 3:5, 0:4]", "[0:1, 4:6, 3:5, 0:4]" + " [0:1, 1:2, 0:16, 0:4]" * 2 + " None" * 4),
    (_RESIZE, "[0:1, 0:1, 8:16]", "[0:1, 0:1, 3:9] None None None"),
    (call("LRN", "1x16x4", size=3), "[0:1, 4:6, 1:2]", "[0:1, 3:7, 1:2]"),
    (call("LRN", "1x8x4", size=3), "[0:1, 4:6, 1:2]", "[0:1, 0:8, 1:2]"),
    (call("CumSum", "3x8 =1"), "[0:1, 0:3]", "[0:1, 0:3] None"),
    (call("Shape", "3x8"), "[0:2]", "None"),
    (call("DepthToSpace", "1x8x4x4", blocksize=2), "[0:1, 0:1, 2:4, 0:8]", "[0:1, 0:7, 1:2, 0:4]"),
]
"""Calls, boxes of their results, and the boxes of operands that theory requires."""


@pytest.mark.parametrize(("case", "part", "expected"), TIGHT, ids=[f"{c.op}{b}" for c, b, _ in TIGHT])
def test_what_is_needed_is_as_small_as_theory_says(case: PartCase, part: str, expected: str) -> None:
    ends = re.findall(r"(\d+):(\d+)", part)
    box = Box(tuple((int(begin), int(end)) for begin, end in ends))
    assert str(box) == part
    assert " ".join(map(str, case.record.needed(case.call(), [box]))) == expected


def test_the_parts_of_several_results_are_united() -> None:
    case = call("Split", "9 =2,3,4", outputs=3)
    boxes = [Box(((1, 2),)), None, Box(((0, 2),))]
    assert case.record.needed(case.call(), boxes) == (Box(((1, 7),)), None)


def test_nothing_is_needed_for_an_empty_part() -> None:
    case = call("Add", "4x6 6")
    assert case.record.needed(case.call(), [Box(((2, 2), (0, 6)))]) == (None, None)
    assert case.record.needed(case.call(), [None]) == (None, None)


def test_a_record_that_says_nothing_needs_its_operands_whole() -> None:
    case = call("ReduceSum", "4x6 =1")
    silent = replace(case.record, needs=None)
    assert silent.needed(case.call(), [Box(((0, 1), (0, 1)))]) == (Box(((0, 4), (0, 6))), None)


# --- divisions -------------------------------------------------------------------------------------------


def said(case: PartCase) -> str:
    """Axis and unit of each division; for each operand its axis, step and reach before and after."""
    texts = []
    for way in divisions(case.record, case.call()):
        operands = (
            "-"
            if item is None
            else f"{item.axis}*{item.step}" + f"-{item.before}+{item.after}" * bool(item.before or item.after)
            for item in way.operands
        )
        texts.append(f"{way.axis}/{way.unit}: {' '.join(operands)}")
    return "; ".join(texts)


DIVISIONS: list[tuple[PartCase, str]] = [
    (call("Add", "4x6 6"), "0/1: 0*1 -; 1/1: 1*1 0*1"),
    (call("MatMul", "2x8x6 6x4"), "0/1: 0*1 -; 1/1: 1*1 -; 2/1: - 1*1"),
    (_THINNED, "0/1: 0*1 -; 1/1: - 1*1"),
    (_BANDED, "0/1: 0*1 -"),
    (_RESIZE, "1/1: 1*1 - - -; 2/2: 2*1-1+1 - - -"),
    (call("Softmax", "4x6"), "0/1: 0*1"),
    (_CONV, "1/1: - 0*1 0*1; 2/1: 2*1-1+1 - -; 3/1: 3*1-1+1 - -"),
    (_GROUPED, "1/4: 1*2 0*4 0*4; 2/1: 2*1 - -; 3/1: 3*1 - -"),
    (_POOL, "1/1: 1*1; 2/1: 2*2; 3/1: 3*2"),
    (call("Conv", "1x8x9x9 8x8x3x3", strides=(2, 2)), "1/1: - 0*1 -; 2/1: 2*2-0+1 - -; 3/1: 3*2-0+1 - -"),
    (call("Reshape", "2x6x4x8 =12,32"), "0/6: 0*1 -; 1/8: 2*1 -"),
    (call("Concat", "4x2 4x3", axis=1), "0/1: 0*1 0*1"),
    (call("Slice", "20 =3 =9"), "0/1: 0*1--3+3 - - - -"),
    (_BACKWARDS, ""),
    (_HEADS, "1/4: 1*4 1*1 1*1 - - - -; 2/1: 2*1 - - - - - -; 3/1: - - 3*1 - - - -"),
    (call("GlobalAveragePool", "2x8x5x5"), "0/1: 0*1; 1/1: 1*1"),
    (call("Expand", "1x4 =3,4"), "1/1: 1*1 -"),
    (call("ReduceSum", "4x6"), ""),
    (call("Add", "0x6 6"), ""),
]
"""Calls, and the axes along which theory says they can be divided."""


@pytest.mark.parametrize(("case", "expected"), DIVISIONS, ids=[case.op for case, _ in DIVISIONS])
def test_divisions_are_those_of_theory(case: PartCase, expected: str) -> None:
    assert said(case) == expected
    assert is_divisible(case.record, case.call()) == bool(expected)


@pytest.mark.parametrize("op", DRAWN)
def test_every_run_of_units_needs_what_the_division_says(op: str) -> None:
    """The probes are some runs, and these are all of them."""
    for seed in range(2):
        case, _ = drawn(op, seed)
        call = case.call()
        shape = case.record.shapes(call)[0]
        for way in divisions(case.record, call):
            whole = case.record.needed(call, [Box.whole(shape)])
            for begin, end in itertools.combinations(range(shape[way.axis] // way.unit + 1), 2):
                part = Box.whole(shape).along(way.axis, begin * way.unit, end * way.unit)
                for at, found in enumerate(case.record.needed(call, [part])):
                    item, own = way.operands[at], whole[at]
                    if item is not None and own is not None:
                        own = item.part(own, (begin, end), call.shape(at))
                    assert found == own, f"{op} {seed}: {way}, units {begin} to {end}, operand {at}"


@pytest.mark.parametrize(
    ("case", "axis", "unit", "expected"),
    [
        (_HEADS, 1, 1, {0: Following(1, 1, 0, 0)}),
        (_HEADS, 1, 4, {0: Following(1, 4, 0, 0), 1: Following(1, 1, 0, 0), 2: Following(1, 1, 0, 0)}),
        (call("Add", "4x6 6"), 0, 2, {0: Following(0, 2, 0, 0), 1: None}),
        (_CONV, 2, 5, {0: Following(2, 5, 1, 1), 1: None, 2: None}),
        (_APART, 2, 1, {0: Following(2, 2, 1, -1), 1: None}),
        (_APART, 2, 2, {0: Following(2, 4, 1, -1), 1: None}),
        (_BACKWARDS, 0, 1, {1: None, 2: None, 3: None, 4: None}),
    ],
    ids=[
        "heads one by one",
        "heads in fours",
        "a row",
        "a window",
        "windows apart",
        "windows apart, two units",
        "backwards",
    ],
)
def test_operands_follow_units_of_a_given_size(
    case: PartCase, axis: int, unit: int, expected: dict[int, Following | None]
) -> None:
    """Heads of keys correspond to four heads of queries; operands that are not divided are missing."""
    found = followings(case.record, case.call(), axis, unit)
    assert {at: way for at, way in found.items() if case.call().has(at)} == expected


# --- boxes -----------------------------------------------------------------------------------------------


def test_boxes_are_cut_united_and_printed() -> None:
    box = Box(((1, 3), (0, 4)))
    assert (box.shape, box.size, str(box)) == ((2, 4), 8, "[1:3, 0:4]")
    assert np.arange(20).reshape(5, 4)[box.slices].tolist() == [[4, 5, 6, 7], [8, 9, 10, 11]]
    assert box.united(Box(((2, 5), (1, 2)))) == Box(((1, 5), (0, 4)))
    assert Box(((-1, 3), (2, 9))).within((2, 4)) == Box(((0, 2), (2, 4)))
    assert Box(((5, 9), (0, 4))).within((5, 4)).size == 0
    assert (Box.whole(()).size, str(Box.whole(()))) == (1, "[]")
