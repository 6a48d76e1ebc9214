"""Loads and stores outside of their arrays stop the program, which names the array, the place and the
element."""

from __future__ import annotations

import re

import numpy as np
import pytest

from triton_launches import Array, case, compiled
from triton_texts import element_of, kind, outcome, places, said, strided


def _array(size: int, dtype: type = np.float32) -> Array:
    return np.arange(size).astype(dtype)


def _copied(size: int, x: Array, out: Array, step: int = 1, first: int = 0) -> str:
    """Loads elements of x from ``first``, ``step`` apart, and stores them at the beginning of out."""
    pointers = kind((size,), f"!tt.ptr<{element_of(x)}>")
    return (
        strided("x", (size,), (step,), element_of(x), first)
        + f"    %v = tt.load %xat : {pointers}\n"
        + places("out", size, element_of(out))
        + f"    tt.store %outat, %v : {pointers}\n"
    )


@pytest.mark.parametrize(
    ("size", "first", "step", "message"),
    [
        (10, 0, 1, "tt.load: pid (0, 0, 0): element 15 of 'x', which has 10"),
        (16, 1, 1, "tt.load: pid (0, 0, 0): element 16 of 'x', which has 16"),
        (16, -1, 1, "tt.load: pid (0, 0, 0): element -1 of 'x', which has 16"),
        (45, 0, 3, None),
        (46, 0, 3, ""),
        (46, 1, 3, "tt.load: pid (0, 0, 0): element 46 of 'x', which has 46"),
        (16, 15, -1, ""),
        (16, 14, -1, "tt.load: pid (0, 0, 0): element -1 of 'x', which has 16"),
        (1, 0, 0, ""),
        (1, 1, 0, "tt.load: pid (0, 0, 0): element 1 of 'x', which has 1"),
    ],
)
@pytest.mark.parametrize("dtype", [np.float32, np.int8, np.int64])
def test_places_that_are_formulas(size: int, first: int, step: int, message: str | None, dtype: type) -> None:
    x, out = _array(size, dtype), _array(16, dtype)
    text = _copied(16, x, out, step, first)
    if message == "":
        got = outcome(text, {"x": x, "out": out})["out"]
        assert np.array_equal(got, x[first + step * np.arange(16)])
    else:
        wanted = message or "tt.load: pid (0, 0, 0): element 45 of 'x', which has 45"
        assert said(text, x=x, out=out) == wanted


def test_a_store_is_not_lost() -> None:
    x, out = _array(16), _array(15)
    assert said(_copied(16, x, out), x=x, out=out) == (
        "tt.store: pid (0, 0, 0): element 15 of 'out', which has 15"
    )


def _of_programs(count: int, limit: str) -> str:
    """Program (., y, .) copies 16 elements; with a ``limit`` only elements before it."""
    block, pointers = kind((16,), "i32"), kind((16,), "!tt.ptr<f32>")
    mask = ", %in" if limit else ""
    return (
        "    %c16 = arith.constant 16 : i32\n    %y = tt.get_program_id y : i32\n"
        f"    %first = arith.muli %y, %c16 : i32\n    %fs = tt.splat %first : i32 -> {block}\n"
        f"    %r = tt.make_range {{end = 16 : i32, start = 0 : i32}} : {block}\n"
        f"    %at = arith.addi %fs, %r : {block}\n"
        + (
            f"    %ns = tt.splat {limit} : i32 -> {block}\n    %in = arith.cmpi slt, %at, %ns : {block}\n"
            if limit
            else ""
        )
        + f"    %xp = tt.splat %x : !tt.ptr<f32> -> {pointers}\n"
        f"    %xat = tt.addptr %xp, %at : {pointers}, {block}\n    %v = tt.load %xat{mask} : {pointers}\n"
        f"    %op = tt.splat %out : !tt.ptr<f32> -> {pointers}\n"
        f"    %oat = tt.addptr %op, %at : {pointers}, {block}\n    tt.store %oat, %v{mask} : {pointers}\n"
    )


def test_the_fault_names_the_program() -> None:
    x, out = _array(40), _array(48)
    assert said(_of_programs(3, ""), (1, 3, 1), x=x, out=out) == (
        "tt.load: pid (0, 2, 0): element 47 of 'x', which has 40"
    )


@pytest.mark.parametrize(("n", "size", "programs"), [(40, 40, 3), (40, 40, 5), (0, 0, 2), (47, 48, 3)])
def test_elements_that_a_mask_leaves_out_are_not_accessed(n: int, size: int, programs: int) -> None:
    x, out = _array(size), np.zeros(size, np.float32)
    got = outcome(_of_programs(programs, "%n"), {"x": x, "out": out, "n": n}, (1, programs, 1))["out"]
    assert np.array_equal(got, np.where(np.arange(size) < n, x, 0))


def test_a_mask_that_is_too_wide() -> None:
    x, out = _array(48), _array(40)
    assert said(_of_programs(3, "%n"), (1, 3, 1), x=x, out=out, n=41) == (
        "tt.store: pid (0, 2, 0): element 40 of 'out', which has 40"
    )


def test_masks_that_are_known_to_fit_take_no_code() -> None:
    """In most kernels it is clear that masks keep all programs inside: these have no check."""
    made = case("add", "fp16")
    assert "ebreak" not in made.program().text
    arrays = {"x": _array(40), "out": _array(40)}
    parameters = ["x: !tt.ptr<f32>", "out: !tt.ptr<f32>", "n: i32"]
    for n, checked in ((40, False), (41, True)):
        program = compiled(_of_programs(3, "%n"), parameters, (1, 3, 1), n=n, **arrays)
        assert ("ebreak" in program.text) == checked


def test_boxes_of_two_axes() -> None:
    """Rows are within the array, but the last one is not whole."""
    x, out = _array(127), _array(128)
    pointers = kind((16, 8), "!tt.ptr<f32>")
    text = (
        f"{strided('x', (16, 8), (8, 1), 'f32')}    %v = tt.load %xat : {pointers}\n"
        f"{strided('out', (16, 8), (1, 16), 'f32')}    tt.store %outat, %v : {pointers}\n"
    )
    assert said(text, x=x, out=out) == "tt.load: pid (0, 0, 0): element 127 of 'x', which has 127"
    got = outcome(text, {"x": _array(128), "out": out})["out"]
    assert np.array_equal(got, _array(128).reshape(16, 8).T.ravel())
    short = _array(127)
    assert said(text, x=out, out=short) == "tt.store: pid (0, 0, 0): element 127 of 'out', which has 127"


@pytest.mark.parametrize(("rows", "start", "outside"), [(10, 7, None), (9, 7, 45), (10, 0, None), (9, 0, 45)])
def test_positions_that_wrap_around(rows: int, start: int, outside: int | None) -> None:
    """Rows (start + 0..7) modulo 10 of an array that has 10 rows of 5, or one fewer."""
    x, out = _array(rows * 5), np.zeros(32, np.float32)
    block, pointers = kind((8, 4), "i32"), kind((8, 4), "!tt.ptr<f32>")
    text = (
        f"    %r = tt.make_range {{end = 8 : i32, start = 0 : i32}} : tensor<8xi32>\n"
        f"    %ss = tt.splat %start : i32 -> tensor<8xi32>\n    %a = arith.addi %ss, %r : tensor<8xi32>\n"
        "    %ten = arith.constant dense<10> : tensor<8xi32>\n    %m = arith.remsi %a, %ten : tensor<8xi32>\n"
        "    %five = arith.constant dense<5> : tensor<8xi32>\n    %f = arith.muli %m, %five : tensor<8xi32>\n"
        "    %fe = tt.expand_dims %f {axis = 1 : i32} : tensor<8xi32> -> tensor<8x1xi32>\n"
        f"    %fb = tt.broadcast %fe : tensor<8x1xi32> -> {block}\n"
        "    %c = tt.make_range {end = 4 : i32, start = 0 : i32} : tensor<4xi32>\n"
        "    %ce = tt.expand_dims %c {axis = 0 : i32} : tensor<4xi32> -> tensor<1x4xi32>\n"
        f"    %cb = tt.broadcast %ce : tensor<1x4xi32> -> {block}\n"
        f"    %at = arith.addi %fb, %cb : {block}\n    %xp = tt.splat %x : !tt.ptr<f32> -> {pointers}\n"
        f"    %xat = tt.addptr %xp, %at : {pointers}, {block}\n    %v = tt.load %xat : {pointers}\n"
        f"{strided('out', (8, 4), (4, 1), 'f32')}    tt.store %outat, %v : {pointers}\n"
    )
    taken = (start + np.arange(8)) % 10
    if outside is not None and taken.max() >= rows:
        assert said(text, x=x, start=start, out=out) == (
            f"tt.load: pid (0, 0, 0): element {outside + 3} of 'x', which has {rows * 5}"
        )
    else:
        got = outcome(text, {"x": x, "start": start, "out": out})["out"]
        assert np.array_equal(got.reshape(8, 4), x.reshape(rows, 5)[taken, :4])


@pytest.mark.parametrize("index", [0, 4, 5, -1])
@pytest.mark.parametrize("width", [4, 32], ids=["by the core", "by the DMA"])
def test_places_that_are_data(index: int, width: int) -> None:
    """Two rows whose numbers are loaded; the array has five, without the last two elements."""
    x, out = _array(5 * width - 2), np.zeros(2 * width, np.float32)
    rows = np.array([1, index], np.int32)
    block, pointers = kind((2, width), "i32"), kind((2, width), "!tt.ptr<f32>")
    text = (
        f"{places('rows', 2, 'i32')}    %n = tt.load %rowsat : tensor<2x!tt.ptr<i32>>\n"
        f"    %w = arith.constant dense<{width}> : tensor<2xi32>\n"
        "    %m = arith.muli %n, %w : tensor<2xi32>\n"
        "    %e = tt.expand_dims %m {axis = 1 : i32} : tensor<2xi32> -> tensor<2x1xi32>\n"
        f"    %b = tt.broadcast %e : tensor<2x1xi32> -> {block}\n{strided('x', (2, width), (0, 1), 'f32')}"
        f"    %p = tt.addptr %xat, %b : {pointers}, {block}\n    %v = tt.load %p : {pointers}\n"
        f"{strided('out', (2, width), (width, 1), 'f32')}    tt.store %outat, %v : {pointers}\n"
    )
    if index == 0:
        got = outcome(text, {"x": x, "rows": rows, "out": out})["out"]
        assert np.array_equal(got, np.concatenate([x[width : 2 * width], x[:width]]))
        return
    fault = said(text, x=x, rows=rows, out=out)
    found = re.fullmatch(r"tt\.load: pid \(0, 0, 0\): element (-?\d+) of 'x', which has (\d+)", fault)
    assert found is not None and int(found[2]) == x.size
    assert int(found[1]) in range(index * width, (index + 1) * width)
    assert not 0 <= int(found[1]) < x.size


def test_rows_from_data_whose_columns_wrap_around() -> None:
    """Columns (3 + 0..31) modulo 20 of rows that are loaded."""
    x, rows = _array(200).reshape(5, 40), np.array([4, 0], np.int32)
    block, pointers = kind((2, 32), "i32"), kind((2, 32), "!tt.ptr<f32>")
    text = (
        f"{places('rows', 2, 'i32')}    %n = tt.load %rowsat : tensor<2x!tt.ptr<i32>>\n"
        "    %w = arith.constant dense<40> : tensor<2xi32>\n    %m = arith.muli %n, %w : tensor<2xi32>\n"
        "    %e = tt.expand_dims %m {axis = 1 : i32} : tensor<2xi32> -> tensor<2x1xi32>\n"
        f"    %b = tt.broadcast %e : tensor<2x1xi32> -> {block}\n"
        "    %r = tt.make_range {end = 32 : i32, start = 0 : i32} : tensor<32xi32>\n"
        "    %ss = tt.splat %start : i32 -> tensor<32xi32>\n    %a = arith.addi %ss, %r : tensor<32xi32>\n"
        "    %d = arith.constant dense<20> : tensor<32xi32>\n    %o = arith.remsi %a, %d : tensor<32xi32>\n"
        "    %oe = tt.expand_dims %o {axis = 0 : i32} : tensor<32xi32> -> tensor<1x32xi32>\n"
        f"    %ob = tt.broadcast %oe : tensor<1x32xi32> -> {block}\n    %at = arith.addi %b, %ob : {block}\n"
        f"    %xp = tt.splat %x : !tt.ptr<f32> -> {pointers}\n"
        f"    %xat = tt.addptr %xp, %at : {pointers}, {block}\n    %v = tt.load %xat : {pointers}\n"
        f"{strided('out', (2, 32), (32, 1), 'f32')}    tt.store %outat, %v : {pointers}\n"
    )
    arguments = {"x": x, "rows": rows, "start": 3, "out": np.zeros((2, 32), np.float32)}
    assert np.array_equal(outcome(text, arguments)["out"], x[rows][:, (3 + np.arange(32)) % 20])


@pytest.mark.parametrize("element", ["f32", "i32", "i64"])
@pytest.mark.parametrize(("place", "outside"), [(9, False), (10, True), (-1, True)])
def test_single_elements(element: str, place: int, outside: bool) -> None:
    dtype = {"f32": np.float32, "i32": np.int32, "i64": np.int64}[element]
    x, out = _array(10, dtype), np.zeros(1, dtype)
    text = (
        f"    %p = tt.addptr %x, %at : !tt.ptr<{element}>, i32\n"
        f"    %v = tt.load %p : !tt.ptr<{element}>\n    tt.store %out, %v : !tt.ptr<{element}>\n"
    )
    if outside:
        wanted = f"tt.load: pid (0, 0, 0): element {place} of 'x', which has 10"
        assert said(text, x=x, at=place, out=out) == wanted
    else:
        assert outcome(text, {"x": x, "at": place, "out": out})["out"].tolist() == [9]


@pytest.mark.parametrize(("turns", "outside"), [(4, False), (5, True)])
def test_pointers_that_a_loop_moves(turns: int, outside: bool) -> None:
    """Each iteration takes 16 elements of 64; the iteration that leaves them stops the program."""
    x, out = _array(64), np.zeros(16, np.float32)
    pointers, floats = kind((16,), "!tt.ptr<f32>"), kind((16,), "f32")
    text = (
        f"{places('x', 16, 'f32')}    %c0 = arith.constant 0 : i32\n    %c1 = arith.constant 1 : i32\n"
        f"    %zero = arith.constant dense<0.000000e+00> : {floats}\n"
        f"    %step = arith.constant dense<16> : {kind((16,), 'i32')}\n"
        f"    %s:2 = scf.for %i = %c0 to %n step %c1 iter_args(%a = %zero, %p = %xat) -> "
        f"({floats}, {pointers})  : i32 {{\n"
        f"      %v = tt.load %p : {pointers}\n      %b = arith.addf %a, %v : {floats}\n"
        f"      %q = tt.addptr %p, %step : {pointers}, {kind((16,), 'i32')}\n"
        f"      scf.yield %b, %q : {floats}, {pointers}\n    }}\n"
        f"{places('out', 16, 'f32')}    tt.store %outat, %s#0 : {pointers}\n"
    )
    if outside:
        wanted = "tt.load: pid (0, 0, 0): element 64 of 'x', which has 64"
        assert said(text, x=x, n=turns, out=out) == wanted
    else:
        got = outcome(text, {"x": x, "n": turns, "out": out})["out"]
        assert np.array_equal(got, x.reshape(4, 16).sum(0))


@pytest.mark.parametrize(("taken", "message"), [(0, ""), (1, "element 15 of 'x', which has 10")])
def test_a_branch_that_is_not_taken_accesses_nothing(taken: int, message: str) -> None:
    x, out = _array(10), _array(16)
    pointers = kind((16,), "!tt.ptr<f32>")
    text = (
        f"    %c0 = arith.constant 0 : i32\n    %flag = tt.load %taken : !tt.ptr<i32>\n"
        f"    %c = arith.cmpi sgt, %flag, %c0 : i32\n{places('x', 16, 'f32')}{places('out', 16, 'f32')}"
        f"    scf.if %c {{\n      %v = tt.load %xat : {pointers}\n"
        f"      tt.store %outat, %v : {pointers}\n    }}\n"
    )
    arguments = {"x": x, "taken": np.array([taken], np.int32), "out": out}
    if message:
        assert said(text, **arguments) == f"tt.load: pid (0, 0, 0): {message}"
    else:
        assert np.array_equal(outcome(text, arguments)["out"], out)


def test_atomic_operations() -> None:
    x = np.zeros(10, np.int32)
    text = (
        f"{strided('x', (16,), (1,), 'i32')}    %one = arith.constant dense<1> : tensor<16xi32>\n"
        "    %v = tt.atomic_rmw add, acq_rel, gpu, %xat, %one : "
        "(tensor<16x!tt.ptr<i32>>, tensor<16xi32>) -> tensor<16xi32>\n"
    )
    assert said(text, x=x) == "tt.atomic_rmw: pid (0, 0, 0): element 10 of 'x', which has 10"


@pytest.mark.parametrize(("first", "outside"), [(0, None), (8, None), (9, 24), (-1, -1), (-4, -4)])
def test_pointers_to_elements_of_another_size(first: int, outside: int | None) -> None:
    """16 bytes of six numbers from byte ``first``, through a pointer to the second number that goes
    back."""
    x, out = _array(6), np.zeros(16, np.int8)
    pointers = kind((16,), "!tt.ptr<i8>")
    text = (
        "    %c1 = arith.constant 1 : i32\n    %far = tt.addptr %x, %c1 : !tt.ptr<f32>, i32\n"
        "    %bytes = tt.bitcast %far : !tt.ptr<f32> -> !tt.ptr<i8>\n"
        f"    %back = arith.constant {first - 4} : i32\n"
        "    %near = tt.addptr %bytes, %back : !tt.ptr<i8>, i32\n"
        f"    %r = tt.make_range {{end = 16 : i32, start = 0 : i32}} : tensor<16xi32>\n"
        f"    %s = tt.splat %near : !tt.ptr<i8> -> {pointers}\n"
        f"    %at = tt.addptr %s, %r : {pointers}, tensor<16xi32>\n    %v = tt.load %at : {pointers}\n"
        f"{places('out', 16, 'i8')}    tt.store %outat, %v : {pointers}\n"
    )
    if outside is not None:
        wanted = f"tt.load: pid (0, 0, 0): element {outside} of 'x', which has 24"
        assert said(text, x=x, out=out) == wanted
    else:
        got = outcome(text, {"x": x, "out": out})["out"]
        assert np.array_equal(got, x.view(np.int8)[first : first + 16])


def test_pointers_to_larger_elements() -> None:
    x, out = _array(6).view(np.int8), np.zeros(4, np.float32)
    pointers = kind((4,), "!tt.ptr<f32>")
    text = (
        f"{strided('x', (4,), (4,), 'i8', 8)}"
        f"    %f = tt.bitcast %xat : {kind((4,), '!tt.ptr<i8>')} -> {pointers}\n"
        f"    %v = tt.load %f : {pointers}\n{places('out', 4, 'f32')}    tt.store %outat, %v : {pointers}\n"
    )
    assert outcome(text, {"x": x, "out": out})["out"].tolist() == [2, 3, 4, 5]
    wanted = "tt.load: pid (0, 0, 0): element 5 of 'x', which has 5"
    assert said(text, x=x[:23].copy(), out=out) == wanted
