"""Kernels that load pointers: lists of the addresses of arrays."""

from __future__ import annotations

import numpy as np
import pytest

import tx8
from emulator import Fault
from triton_launches import PRODUCTS, draw, wide
from triton_operators import OPERATORS

KERNEL = OPERATORS / "product_list.ttir"
_ROWS = (50, 7, 33)


def test_products_of_pairs_whose_addresses_are_loaded() -> None:
    """Every pair has a separate number of rows; bytes between and after the arrays do not change."""
    kernel = tx8.triton_kernel(KERNEL)
    a = [draw("fp16", rows, 45, seed=rows) for rows in _ROWS]
    b = [draw("fp16", 45, 75, seed=100 + rows) for rows in _ROWS]
    c = [np.full((rows + 1, 75), np.nan, np.float16) for rows in _ROWS]
    rows = np.array(_ROWS, np.int32)
    run = kernel.launch(3, tx8.Addresses(a), tx8.Addresses(b), tx8.Addresses(c), rows, 75, 45)
    for left, right, found in zip(a, b, c, strict=True):
        want = wide(left) @ wide(right)
        assert np.isnan(found[-1]).all()
        assert np.abs(found[:-1] - want).max() <= PRODUCTS["fp16"] * np.abs(want).max()
    assert run.hazards == () and run.cycles > 0
    before = [each.copy() for each in c]
    for each in a:
        each *= 2
    kernel.launch(3, tx8.Addresses(a), tx8.Addresses(b), tx8.Addresses(c), rows, 75, 45, threads=2)
    assert all(np.array_equal(each[:-1], 2 * old[:-1]) for each, old in zip(c, before, strict=True))


def test_arrays_of_several_types_behind_one_list() -> None:
    text = """module {
  tt.func public @f(%list: !tt.ptr<i64>, %out: !tt.ptr<f32>) {
    %one = arith.constant 1 : i32
    %p0 = tt.load %list : !tt.ptr<i64>
    %a0 = tt.int_to_ptr %p0 : i64 -> !tt.ptr<i32>
    %second = tt.addptr %list, %one : !tt.ptr<i64>, i32
    %p1 = tt.load %second : !tt.ptr<i64>
    %a1 = tt.int_to_ptr %p1 : i64 -> !tt.ptr<f32>
    %place = tt.load %a0 : !tt.ptr<i32>
    %at = tt.addptr %a1, %place : !tt.ptr<f32>, i32
    %v = tt.load %at : !tt.ptr<f32>
    tt.store %out, %v : !tt.ptr<f32>
    %next = tt.addptr %at, %one : !tt.ptr<f32>, i32
    tt.store %next, %v : !tt.ptr<f32>
    tt.return
  }
}
"""
    place, numbers, out = np.array([5], np.int32), np.arange(8, dtype=np.float32), np.zeros(1, np.float32)
    tx8.triton_kernel(text).launch(1, tx8.Addresses([place, numbers]), out)
    assert out[0] == 5 and numbers.tolist() == [0, 1, 2, 3, 4, 5, 5, 7]


COPY = """module {
  tt.func public @copy(%list: !tt.ptr<i64>, %number: i32, %bytes: i64, %first: i32, %out: !tt.ptr<f32>) {
    %at = tt.addptr %list, %number : !tt.ptr<i64>, i32
    %loaded = tt.load %at : !tt.ptr<i64>
    %address = arith.addi %loaded, %bytes : i64
    %p = tt.int_to_ptr %address : i64 -> !tt.ptr<f32>
    %begin = tt.addptr %p, %first : !tt.ptr<f32>, i32
    %r = tt.make_range {end = 8 : i32, start = 0 : i32} : tensor<8xi32>
    %s = tt.splat %begin : !tt.ptr<f32> -> tensor<8x!tt.ptr<f32>>
    %ps = tt.addptr %s, %r : tensor<8x!tt.ptr<f32>>, tensor<8xi32>
    %v = tt.load %ps : tensor<8x!tt.ptr<f32>>
    %o = tt.splat %out : !tt.ptr<f32> -> tensor<8x!tt.ptr<f32>>
    %os = tt.addptr %o, %r : tensor<8x!tt.ptr<f32>>, tensor<8xi32>
    tt.store %os, %v : tensor<8x!tt.ptr<f32>>
    tt.return
  }
}
"""


@pytest.mark.parametrize(
    ("number", "bytes_", "first", "message"),
    [
        (0, 0, 0, ""),
        (0, 0, 2, ""),
        (0, 8, -2, ""),
        (1, 0, 0, ""),
        (0, 0, 3, "element 10 of the array at an address that was loaded, which has 10"),
        (0, 8, 1, "element 10 of the array at an address that was loaded, which has 10"),
        (0, 8, -3, "element -1 of the array at an address that was loaded, which has 10"),
        (1, 0, 1, "element 8 of the array at an address that was loaded, which has 8"),
        (2, 0, 0, "element 2 of 'list', which has 2"),
        (0, 40, 0, "0x[0-9a-f]+ was loaded as an address, but is in no array"),
        (0, -4, 0, "0x[0-9a-f]+ was loaded as an address, but is in no array"),
    ],
)
def test_addresses_reach_their_arrays_alone(number: int, bytes_: int, first: int, message: str) -> None:
    """Eight elements from ``first``, from an address some bytes after the loaded one."""
    arrays = [np.arange(10, dtype=np.float32), 10 * np.arange(8, dtype=np.float32)]
    kernel, out = tx8.triton_kernel(COPY), np.zeros(8, np.float32)
    given = (tx8.Addresses(arrays), number, bytes_, first, out)
    if message:
        with pytest.raises(Fault, match=rf"ebreak: pid \(0, 0, 0\): {message}$"):
            kernel.launch(1, *given)
    else:
        kernel.launch(1, *given)
        begin = bytes_ // 4 + first
        assert np.array_equal(out, arrays[number][begin : begin + 8])


def test_what_is_refused() -> None:
    kernel = tx8.triton_kernel(KERNEL)
    good = tx8.Addresses([np.zeros(8, np.float16)])
    rows = np.ones(1, np.int32)
    with pytest.raises(tx8.Error) as error:
        kernel.launch(1, good, good, tx8.Addresses([np.zeros(8)]), rows, 1, 1)
    wanted = (
        "product_list: array 0 of argument 'c' is float64; supported are float16, bfloat16, float32, int8"
    )
    assert str(error.value).startswith(wanted)
    with pytest.raises(tx8.Error, match=r"^product_list: argument 'b\.0' has gaps or is read-only"):
        kernel.launch(1, good, tx8.Addresses([np.zeros((4, 4), np.float16).T[1:]]), good, rows, 1, 1)
    with pytest.raises(tx8.Error, match=r"^product_list: argument 'm' points to i32: addresses are i64$"):
        kernel.launch(1, good, good, good, good, 1, 1)
    with pytest.raises(tx8.Error, match=r"argument 'a' is an empty list of addresses: expected one at least"):
        kernel.launch(1, tx8.Addresses([]), good, good, rows, 1, 1)
    with pytest.raises(tx8.Error, match=r"array 0 of argument 'a' is list; supported are"):
        kernel.launch(1, tx8.Addresses([[1.0]]), good, good, rows, 1, 1)
    block = (
        "module {\n  tt.func public @f(%x: !tt.ptr<i64>) {\n"
        "    %at = tt.make_range {end = 8 : i32, start = 0 : i32} : tensor<8xi32>\n"
        "    %s = tt.splat %x : !tt.ptr<i64> -> tensor<8x!tt.ptr<i64>>\n"
        "    %p = tt.addptr %s, %at : tensor<8x!tt.ptr<i64>>, tensor<8xi32>\n"
        "    %v = tt.load %p : tensor<8x!tt.ptr<i64>>\n"
        "    %q = tt.int_to_ptr %v : tensor<8xi64> -> tensor<8x!tt.ptr<f32>>\n    tt.return\n  }\n}\n"
    )
    with pytest.raises(tx8.Error, match=r"tt\.int_to_ptr: takes one address of 64 bits, to elements of f16"):
        tx8.triton_kernel(block).program(1, np.zeros(8, np.int64))
