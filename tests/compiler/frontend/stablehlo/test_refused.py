"""What StableHLO imports refuse: one line with the mistake, the place, and what is supported."""

from __future__ import annotations

import builtins
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from packaging.requirements import Requirement

from compiler.cli import main
from compiler.frontend.stablehlo import from_jax
from compiler.graph import Array, GraphError
from paths import ROOT
from stablehlo_cases import case_text, graph_of_text, module_text, one_operation, type_text

X = np.zeros((2, 3), np.float32)
I = np.zeros((2, 3), np.int32)  # noqa: E741
V = np.zeros(3, np.float32)


def body(*lines: str, kind: str = "tensor<f32>", returned: str = "%0", result: str = "") -> str:
    """A region of two operands that returns one of their type, or the given one."""
    result = result or kind
    start = f"    ^bb0(%x: {kind}, %y: {kind}):"
    return "\n".join((start, *lines, f'      "stablehlo.return"({returned}) : ({result}) -> ()'))


def two(op: str, kind: str = "tensor<f32>") -> str:
    return body(f'      %0 = "stablehlo.{op}"(%x, %y) : ({kind}, {kind}) -> {kind}', kind=kind)


SCATTER = (
    "scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], "
    "scatter_dims_to_operand_dims = [0], index_vector_dim = 1>"
)
CONV = "dimension_numbers = #stablehlo.conv<[b, 0, f]x[0, i, o]->[b, 0, f]>"
ONE = np.zeros((), np.float32)
IMAGE, KERNEL = np.zeros((1, 8, 2), np.float32), np.zeros((3, 2, 4), np.float32)

REFUSED: dict[str, tuple[str, str]] = {
    "unknown operation": (
        one_operation("stablehlo.cholesky", [X], [X]),
        r"unsupported operator stablehlo\.cholesky \(node 'cholesky@4'\).* \(.*module\.mlir:4\)$",
    ),
    "near miss": (one_operation("stablehlo.substract", [X, X], [X]), "did you mean"),
    "other dialect": (one_operation("tosa.add", [X, X], [X]), "unsupported operator tosa.add"),
    "complex numbers": (
        one_operation("stablehlo.abs", [X], [X]).replace("2x3xf32", "2x3xcomplex<f32>"),
        r"input 'arg0': elements of type complex<f32> are not supported",
    ),
    "dynamic dimension": (
        one_operation("stablehlo.abs", [X], [X]).replace("2x3xf32", "?x3xf32"),
        r"input 'arg0': .* has a dynamic dimension; shapes must be static",
    ),
    "doubles": (
        one_operation("stablehlo.abs", [X], [X]).replace("2x3xf32", "2x3xf64"),
        "input 'arg0' is float64; supported are float32, ",
    ),
    "a token": (
        one_operation("stablehlo.abs", [X], [X]).replace("tensor<2x3xf32>", "!stablehlo.token"),
        "is not a tensor; only tensors of numbers are supported",
    ),
    "unsigned words of 64 bits": (
        one_operation("stablehlo.convert", [X], [X.astype(np.uint64)]),
        r"convert.*to must be the number of float32",
    ),
    "wrong result type": (
        one_operation("stablehlo.add", [X, X], [V]),
        r"declares a result float32 \[3\]; its operands give float32 \[2, 3\]",
    ),
    "two results": (one_operation("stablehlo.add", [X, X], [X, X]), "declares 2 results; it has 1"),
    "no operand": (one_operation("stablehlo.abs", [], [X]), "operand 0 is missing"),
    "shapes that differ": (one_operation("stablehlo.add", [X, IMAGE], [X]), "operands of shapes"),
    "unknown direction": (
        one_operation("stablehlo.compare", [X, X], [X > 0]),
        "compares by nothing; known are NE, EQ, ",
    ),
    "shift by what is computed": (
        one_operation("stablehlo.shift_right_logical", [I, I], [I]),
        "shifts signed integers by numbers that are not known",
    ),
    "odd precision": (
        one_operation(
            "stablehlo.reduce_precision", [X], [X], "exponent_bits = 4 : i32, mantissa_bits = 3 : i32"
        ),
        r"rounds to 4 bits of exponent and 3 of mantissa; supported are \(8, 23\)",
    ),
    "bits of another width": (
        one_operation("stablehlo.bitcast_convert", [X], [X.astype(np.float16)]),
        "another width",
    ),
    "resource": (
        module_text(
            '    %r = "stablehlo.constant"() <{value = dense_resource<w> : tensor<2x3xf32>}>'
            " : () -> tensor<2x3xf32>",
            [],
            [type_text(X)],
            "%r",
        ),
        r"its value is of kind dense_resource; expected numbers in the text",
    ),
    "iota of no axis": (
        one_operation("stablehlo.iota", [], [X], "iota_dimension = 2 : i64"),
        "iota_dimension 2 is not an axis",
    ),
    "huge iota": (
        one_operation("stablehlo.iota", [], [V], "iota_dimension = 0 : i64").replace(
            "3xf32", "9999999999xf32"
        ),
        "on constants: would take 119,999,999,988 bytes before a run",
    ),
    "broadcast of three to two": (
        one_operation("stablehlo.broadcast_in_dim", [V], [X[:, :2]], "broadcast_dimensions = array<i64: 1>"),
        "an axis of 3 elements cannot be repeated to 2",
    ),
    "broadcast to no axis": (
        one_operation("stablehlo.broadcast_in_dim", [V], [X], "broadcast_dimensions = array<i64: 2>"),
        "do not place 1 axes in 2",
    ),
    "reshape to more": (
        one_operation("stablehlo.reshape", [X], [IMAGE]),
        "have different numbers of elements",
    ),
    "no order": (
        one_operation("stablehlo.transpose", [X], [X], "permutation = array<i64: 0, 0>"),
        r"\[0, 0\] is not an order of 2 axes",
    ),
    "slice without bounds": (one_operation("stablehlo.slice", [X], [X]), "has no start_indices"),
    "negative interior": (
        one_operation(
            "stablehlo.pad",
            [V, ONE],
            [V],
            "edge_padding_low = array<i64: 1>, edge_padding_high = array<i64: 1>, "
            "interior_padding = array<i64: -1>",
        ),
        "interior_padding must not be negative",
    ),
    "matrices that do not fit": (
        one_operation(
            "stablehlo.dot_general",
            [X, X],
            [X],
            "dot_dimension_numbers = #stablehlo.dot<lhs_contracting_dimensions = [1], "
            "rhs_contracting_dimensions = [0]>",
        ),
        "do not fit each other",
    ),
    "gradient of a kernel": (
        one_operation(
            "stablehlo.convolution", [IMAGE, KERNEL], [IMAGE], f"{CONV}, batch_group_count = 2 : i64"
        ),
        "batch_group_count is not 1, as in gradients",
    ),
    "axes of a convolution": (
        one_operation(
            "stablehlo.convolution", [IMAGE, KERNEL], [IMAGE], CONV.replace("[b, 0, f]x", "[b, b, f]x")
        ),
        r"axes \[b, b, f\]; expected b, f, 0 in any order",
    ),
    "no axes of a convolution": (
        one_operation("stablehlo.convolution", [IMAGE, KERNEL], [IMAGE]),
        "dimension_numbers cannot be read",
    ),
    "reduction by a difference": (
        one_operation("stablehlo.reduce", [X, ONE], [V[:2]], "dimensions = array<i64: 1>", two("subtract")),
        "its body is stablehlo.subtract, stablehlo.return; supported is one of add, ",
    ),
    "reduction bit by bit": (
        one_operation(
            "stablehlo.reduce",
            [I, I[0, 0]],
            [I[:, 0]],
            "dimensions = array<i64: 1>",
            two("and", "tensor<i32>"),
        ),
        "reduces int32 bit by bit",
    ),
    "reduction of three": (
        one_operation(
            "stablehlo.reduce",
            [X, X, X, ONE, ONE, ONE],
            [V[:2]] * 3,
            "dimensions = array<i64: 1>",
            two("add"),
        ),
        "reduces 3 operands together",
    ),
    "window from another start": (
        one_operation(
            "stablehlo.reduce_window", [V, ONE], [V], "window_dimensions = array<i64: 1>", two("maximum")
        ),
        "starts from other than -inf",
    ),
    "window of products": (
        case_text("windows", "pool_of_a_line")
        .replace("stablehlo.add", "stablehlo.multiply")
        .replace("dense<0.000000e+00>", "dense<1.0>"),
        "multiply over windows along 1 axes; supported are add, maximum",
    ),
    "sort by two keys": (
        one_operation(
            "stablehlo.sort",
            [V],
            [V],
            "dimension = 0 : i64",
            body(
                '      %0 = "stablehlo.compare"(%x, %y) <{comparison_direction = '
                "#stablehlo<comparison_direction NE>}> : (tensor<f32>, tensor<f32>) -> tensor<i1>",
                result="tensor<i1>",
            ),
        ),
        "its comparator is not 'less' or 'greater' of one of its operands",
    ),
    "sort by what is computed outside": (
        one_operation(
            "stablehlo.sort",
            [V],
            [V],
            "dimension = 0 : i64",
            two("minimum")
            .replace("(%x, %y) :", "(%x, %a0) :")
            .replace("(tensor<f32>, tensor<f32>)", "(tensor<f32>, tensor<3xf32>)"),
        ),
        "its body uses values from outside of it that are not constants",
    ),
    "sort by a sum": (
        one_operation("stablehlo.sort", [V], [V], "dimension = 0 : i64", two("add")),
        "its body has stablehlo.add; supported are stablehlo.compare, ",
    ),
    "too many of the best": (
        one_operation("chlo.top_k", [V], [V, V.astype(np.int32)], "k = 4 : i64"),
        "takes 4 of 3",
    ),
    "scatter of a difference": (
        one_operation("stablehlo.scatter", [X, I[:, :1], X], [X], SCATTER, two("subtract")),
        "its body is stablehlo.subtract",
    ),
    "scatter of truths": (
        one_operation(
            "stablehlo.scatter", [X > 0, I[:, :1], X > 0], [X > 0], SCATTER, two("and", "tensor<i1>")
        ),
        "its body is and; supported are second, add, multiply",
    ),
    "gather beside its operand": (
        one_operation(
            "stablehlo.gather",
            [X, I[:, :1]],
            [X],
            "slice_sizes = array<i64: 1, 3>, dimension_numbers = #stablehlo.gather<offset_dims = [1], "
            "collapsed_slice_dims = [7], start_index_map = [0], index_vector_dim = 1>",
        ),
        "its slices and axes do not fit an operand",
    ),
    "indices of two numbers": (
        one_operation(
            "stablehlo.gather",
            [X, I],
            [X],
            "slice_sizes = array<i64: 1, 3>, dimension_numbers = #stablehlo.gather<offset_dims = [1], "
            "collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>",
        ),
        "indices have 3 numbers; 1 axes are indexed",
    ),
    "a slice without starts": (
        one_operation("stablehlo.dynamic_slice", [X], [X], "slice_sizes = array<i64: 2, 3>"),
        "needs a start and a size for each of 2 axes",
    ),
    "custom call": (
        one_operation("stablehlo.custom_call", [X], [X], 'call_target_name = "lapack_sgetrf_ffi"'),
        "calls 'lapack_sgetrf_ffi', code outside of the module: write it in operations of jax.numpy",
    ),
    "call of nothing": (
        one_operation("func.call", [X], [X], "callee = @absent"),
        "calls 'absent', which is not a function of the module",
    ),
    "recursion": (
        one_operation("func.call", [X], [X], "callee = @main"),
        "unsupported operator func.call .*",
    ),
    "a cut text": (one_operation("stablehlo.abs", [X], [X])[:-30], r"module\.mlir:\d+: cannot be parsed: "),
    "no function": (
        '"builtin.module"() ({\n}) : () -> ()\n',
        "has no function main of one block; its functions: none",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_one_line_says_why(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text, message = REFUSED[name]
    with pytest.raises(GraphError, match=message):
        graph_of_text(tmp_path, text)
    assert main([str(tmp_path / "module.mlir")]) == 1
    lines = capsys.readouterr().err.splitlines()
    assert lines and all(line.startswith("tx8cc: error: ") for line in lines)


def loop(condition: str) -> str:
    """A loop that counts ``%a0`` up from 0 or from an input."""
    lines = f"""\
    %z = "stablehlo.constant"() <{{value = dense<0> : tensor<i32>}}> : () -> tensor<i32>
    %o = "stablehlo.constant"() <{{value = dense<1> : tensor<i32>}}> : () -> tensor<i32>
    %n = "stablehlo.constant"() <{{value = dense<2000> : tensor<i32>}}> : () -> tensor<i32>
    %r = "stablehlo.while"({condition}) ({{
    ^bb0(%i: tensor<i32>):
      %0 = "stablehlo.compare"(%i, %n) <{{comparison_direction = #stablehlo<comparison_direction LT>}}>
        : (tensor<i32>, tensor<i32>) -> tensor<i1>
      "stablehlo.return"(%0) : (tensor<i1>) -> ()
    }}, {{
    ^bb0(%j: tensor<i32>):
      %1 = "stablehlo.add"(%j, %o) : (tensor<i32>, tensor<i32>) -> tensor<i32>
      "stablehlo.return"(%1) : (tensor<i32>) -> ()
    }}) : (tensor<i32>) -> tensor<i32>"""
    return module_text(lines, ["tensor<i32>"], ["tensor<i32>"], "%r")


@pytest.mark.long
def test_a_loop_needs_a_known_number_of_steps(tmp_path: Path) -> None:
    with pytest.raises(
        GraphError, match=r"'while@7'\): its condition is not known when compiling: count steps"
    ):
        graph_of_text(tmp_path, loop("%a0"))
    with pytest.raises(GraphError, match="takes more than 1000 steps, which would all be written out"):
        graph_of_text(tmp_path, loop("%z"))


def test_all_mistakes_are_told_at_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kind = type_text(X)
    lines = "\n".join(
        f'    %{name} = "{op}"(%{operand}) : ({kind}) -> {kind}'
        for name, op, operand in (
            ("b", "stablehlo.fft", "a0"),
            ("c", "stablehlo.cholesky", "b"),
            ("d", "stablehlo.abs", "c"),
            ("e", "stablehlo.fft", "d"),
        )
    )
    with pytest.raises(GraphError):
        graph_of_text(tmp_path, module_text(lines, [kind], [kind], "%e"))
    assert main([str(tmp_path / "module.mlir"), "--check"]) == 1
    table = capsys.readouterr().out
    assert all(text in table for text in ("'fft@4'", "'cholesky@5'", "'fft@7'", "not examined"))


PRETTY = b"module @jit_f {\n  func.func public @main(%arg0: tensor<3xf32>) {\n    %0 = stablehlo.abs"
OTHER_FORMS = {
    "pretty": (
        PRETTY,
        "reading StableHLO in its pretty form needs JAX: pip install jax (jax is not installed)",
    ),
    "artifact": (
        b"ML\xefR\rStableHLO_v1.9.0\x00",
        "reading a portable artifact of StableHLO needs JAX: pip install jax (jax is not installed)",
    ),
}


@pytest.mark.parametrize("form", OTHER_FORMS)
def test_without_jax_the_error_says_how_to_get_it(
    form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    real = builtins.__import__

    def without(name: str, *rest: Any) -> Any:
        if name.partition(".")[0] in ("jax", "jaxlib"):
            raise ModuleNotFoundError("No module named 'jax'", name="jax")
        return real(name, *rest)

    content, message = OTHER_FORMS[form]
    path = tmp_path / "net.mlir"
    path.write_bytes(content)
    monkeypatch.setattr(builtins, "__import__", without)
    assert main([str(path)]) == 1
    assert capsys.readouterr().err == f"tx8cc: error: {path}: {message}\n"
    extra = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]["jax"]
    assert [Requirement(text).name for text in extra] == ["jax"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"module {\n  linalg.yield\n}\n", "a module of MLIR without operations of StableHLO"),
        (b'"builtin.module"() ({\xff\n', "not a module of MLIR: it is not UTF-8 text"),
    ],
)
def test_what_is_no_stablehlo(content: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "net.mlir"
    path.write_bytes(content)
    with pytest.raises(GraphError, match=message):
        from compiler.frontend import load

        load(path)


def test_a_missing_file_is_one_line(tmp_path: Path) -> None:
    from compiler.frontend import load

    with pytest.raises(GraphError, match=r"none\.mlir: cannot be read: No such file"):
        load(tmp_path / "none.mlir")


def test_a_function_that_cannot_be_traced_is_one_line() -> None:
    class Jitted:
        """The same as a function of jax.jit that raises an exception."""

        __name__ = "f"

        def lower(self, *examples: Array) -> None:
            raise TypeError("add got incompatible shapes\nand more")

    with pytest.raises(
        GraphError, match=r"^f: JAX cannot trace it with these examples: add got incompatible shapes$"
    ):
        from_jax(Jitted(), (X,))
