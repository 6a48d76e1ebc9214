"""Boxes of positions: all that a program loads is inside of its array, or the program stops."""

from __future__ import annotations

import random
import re
from typing import Any

import numpy as np
import pytest

from triton_texts import kind, outcome, said


def _axis(name: str, program: str, extent: int, limit: str, one: str) -> str:
    """%NAMEe: positions of an axis of the block, beginning at that of the program; %NAMEin: True for
    positions below a limit."""
    line = kind((extent,), "i32")
    return (
        f"    %{name}id = tt.get_program_id {program} : i32\n    %{name}c = arith.constant {extent} : i32\n"
        f"    %{name}f = arith.muli %{name}id, %{name}c : i32\n"
        f"    %{name}fs = tt.splat %{name}f : i32 -> {line}\n"
        f"    %{name}r = tt.make_range {{end = {extent} : i32, start = 0 : i32}} : {line}\n"
        f"    %{name}at = arith.addi %{name}fs, %{name}r : {line}\n"
        f"    %{name}e = tt.reshape %{name}at : {line} -> tensor<{one}xi32>\n{limit}"
        f"    %{name}l = tt.splat %{name}limit : i32 -> tensor<{one}xi32>\n"
        f"    %{name}in = arith.cmpi slt, %{name}e, %{name}l : tensor<{one}xi32>\n"
    )


def _limit(name: str, value: int, known: bool) -> str:
    """%NAMElimit: a number of the text, or one that is loaded."""
    if known:
        return f"    %{name}limit = arith.constant {value} : i32\n"
    return f"    %{name}limit = tt.load %{name}n : !tt.ptr<i32>\n"


def _any_box(seed: int) -> None:
    """Programs load boxes of rows and columns, which are inside of the array or not, by one element often."""
    chosen = random.Random(seed)
    rows, columns = chosen.choice((2, 4, 16)), chosen.choice((1, 4, 8, 32))
    grid = chosen.randint(1, 3), chosen.randint(1, 2)
    step, first = chosen.choice((columns, columns * grid[1], columns + 3)), chosen.choice((0, 0, 0, 1, -1))
    limits = chosen.randint(0, rows * grid[0] + 1), chosen.randint(0, columns * grid[1] + 1)
    known = chosen.random() < 0.6, chosen.random() < 0.6
    at = [np.arange(extent * count) for extent, count in zip((rows, columns), grid, strict=True)]
    inside = (at[0][:, None] < limits[0]) & (at[1][None, :] < limits[1])
    index = at[0][:, None] * step + at[1][None, :] + first
    least, most = (int(index[inside].min()), int(index[inside].max())) if inside.any() else (0, -1)
    size = max(0, most + 1 + chosen.choice((0, 0, 0, 1, 9, -1, -1, -4)))
    x, out = np.arange(1, size + 1, dtype=np.float32), np.zeros(inside.shape, np.float32)
    block, truth, pointers = (kind((rows, columns), each) for each in ("i32", "i1", "!tt.ptr<f32>"))
    text = "".join(
        _axis(name, program, extent, _limit(name, limits[number], known[number]), one)
        for number, (name, program, extent, one) in enumerate(
            (("a", "x", rows, f"{rows}x1"), ("b", "y", columns, f"1x{columns}"))
        )
    )
    for what, element in (("e", "i32"), ("in", "i1")):
        for name, one in (("a", f"{rows}x1"), ("b", f"1x{columns}")):
            text += f"    %{name}{what}b = tt.broadcast %{name}{what} : tensor<{one}x{element}> -> "
            text += f"{kind((rows, columns), element)}\n"
    text += f"    %inside = arith.andi %ainb, %binb : {truth}\n"
    for array, pitch, begin, mask in (("x", step, first, ", %inside"), ("out", columns * grid[1], 0, "")):
        text += (
            f"    %{array}w = arith.constant dense<{pitch}> : {block}\n"
            f"    %{array}m = arith.muli %aeb, %{array}w : {block}\n"
            f"    %{array}s = arith.addi %{array}m, %beb : {block}\n"
            f"    %{array}f = arith.constant dense<{begin}> : {block}\n"
            f"    %{array}t = arith.addi %{array}s, %{array}f : {block}\n"
            f"    %{array}p = tt.splat %{array} : !tt.ptr<f32> -> {pointers}\n"
            f"    %{array}at = tt.addptr %{array}p, %{array}t : {pointers}, {block}\n"
        )
        text += f"    %v = tt.load %xat{mask} : {pointers}\n" if array == "x" else ""
    text += f"    tt.store %outat, %v : {pointers}\n"
    arguments: dict[str, Any] = {"x": x, "out": out}
    for name, value, is_known in zip("ab", limits, known, strict=True):
        arguments |= {} if is_known else {f"{name}n": np.array([value], np.int32)}
    if inside.any() and (least < 0 or most >= size):
        fault = said(text, (*grid, 1), **arguments)
        found = re.fullmatch(r"tt\.load: pid \(\d, \d, 0\): element (-?\d+) of 'x', which has (\d+)", fault)
        assert found is not None and int(found[2]) == size and not 0 <= int(found[1]) < size, (seed, fault)
        return
    want = np.zeros_like(out)
    want[inside] = x[index[inside]]
    assert np.array_equal(outcome(text, arguments, (*grid, 1))["out"], want), seed


@pytest.mark.parametrize("part", range(3))
def test_any_box_is_inside_or_stops_the_program(part: int) -> None:
    for seed in range(5 * part, 5 * part + 5):
        _any_box(seed)


@pytest.mark.long
@pytest.mark.parametrize("part", range(10))
def test_many_boxes_are_inside_or_stop_the_program(part: int) -> None:
    for seed in range(100 + 50 * part, 150 + 50 * part):
        _any_box(seed)
