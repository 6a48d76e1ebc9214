"""Products whose constant weights keep their few bits: recognised forms, others, and results."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from onnx import helper

import compiler
from compiler.graph import Array, Graph
from compiler.passes.rewrite import simplified
from compiler.tools import run
from microsoft_cases import MicrosoftCall
from onnx_models import draw, imported, model
from onnx_oracle import onnxruntime

RNG = np.random.default_rng(7)
INNER, COLUMNS = 512, 256

Node = tuple[str, list[str], list[str], dict[str, Any]]


def numbers(low: int, high: int, *shape: int, dtype: str = "int8") -> Array:
    """Integers of all values from ``low`` to ``high``."""
    return RNG.integers(low, high + 1, shape).astype(dtype)


def scales(*shape: int) -> Array:
    return RNG.uniform(0.01, 0.02, shape).astype(np.float32)


def weights_model(
    known: dict[str, Array], rows: int = 2, *more: Node, product: Node | None = None, **attrs: Any
) -> Any:
    """A product of x with the matrix that a DequantizeLinear makes of ``known``, w, s and perhaps z."""
    operands = [name for name in ("w", "s", "z") if name in known]
    last = product or ("MatMul", ["x", "d"], ["y"], {})
    nodes: list[Node] = [("DequantizeLinear", operands, ["d"], attrs), *more, last]
    made = [helper.make_node(op, i, o, f"n{at}", **given) for at, (op, i, o, given) in enumerate(nodes)]
    return model(made, {"x": (rows, INNER)}, constants=known, opset=25, ir_version=11)


def packed_node(graph: Graph) -> Any:
    """The only product with packed weights; None if there is none."""
    found = [node for node in simplified(graph).nodes if node.op == "PackedMatMul"]
    assert len(found) < 2
    return found[0] if found else None


def agrees(made: Any, folder: Path, dtype: str = "fp16") -> None:
    """Assert that the chip gives onnxruntime's binary32 result, up to rounding to the format.

    Optimised, onnxruntime would quantise x and differ ten times as much from the exact result.
    """
    graph, inputs = imported(made, folder), draw({"x": (made_rows(made), INNER)})
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(
        made.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    (want,) = session.run(None, inputs)
    program = compiler.compile(graph, dtype, search="off")
    found = run.execute(program, inputs)[0]["y"]
    assert "packed_weights" in program.text
    part = 2e-3 if dtype == "fp16" else 2e-2
    np.testing.assert_allclose(found, want, rtol=0, atol=part * float(np.abs(want).max()))


def made_rows(made: Any) -> int:
    return int(made.graph.input[0].type.tensor_type.shape.dim[0].dim_value)


PER_CHANNEL: dict[str, Any] = {"axis": 1}
BY_BLOCKS: dict[str, Any] = {"axis": 0, "block_size": 64}


# --- which are found, and in how many bits ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("known", "attrs", "bits", "zeros"),
    [
        ({"w": (-8, 7), "s": (COLUMNS,)}, PER_CHANNEL, 4, False),
        ({"w": (-128, 127), "s": (COLUMNS,)}, PER_CHANNEL, 8, False),
        ({"w": (-2, 1), "s": (COLUMNS,)}, PER_CHANNEL, 2, False),
        ({"w": (-8, 7), "s": ()}, {}, 4, False),
        ({"w": (-128, 127), "s": ()}, {}, 8, False),
        ({"w": (-8, 7), "s": (8, COLUMNS)}, BY_BLOCKS, 4, False),
        ({"w": (-8, 7), "s": (8, COLUMNS), "z": (-8, 7)}, BY_BLOCKS, 4, True),
        ({"w": (-100, 127), "s": (COLUMNS,), "z": (-100, 90)}, PER_CHANNEL, 8, True),
        ({"w": (100, 115), "s": (COLUMNS,), "z": (101, 114)}, PER_CHANNEL, 4, True),
        ({"w": (20, 35), "s": (COLUMNS,), "z": (28, 28)}, PER_CHANNEL, 4, False),
    ],
)
def test_weights_have_as_few_bits_as_they_need(
    known: dict[str, Any], attrs: dict[str, Any], bits: int, zeros: bool, tmp_path: Path
) -> None:
    arrays = {"w": numbers(*known["w"], INNER, COLUMNS), "s": scales(*known["s"])}
    if "z" in known:
        arrays["z"] = numbers(*known["z"], *known["s"])
    made = weights_model(arrays, **attrs)
    node = packed_node(imported(made, tmp_path))
    assert node is not None
    assert (node.attrs["bits"], len(node.inputs) == 4) == (bits, zeros)
    agrees(made, tmp_path)


def test_unsigned_bytes(tmp_path: Path) -> None:
    w, z = numbers(0, 255, INNER, COLUMNS, dtype="uint8"), numbers(100, 150, COLUMNS, dtype="uint8")
    made = weights_model({"w": w, "s": scales(COLUMNS), "z": z}, axis=1)
    assert packed_node(imported(made, tmp_path)).attrs["bits"] == 8
    agrees(made, tmp_path)


@pytest.mark.parametrize("dtype", ["int4", "uint4"])
def test_types_of_four_bits(dtype: str, tmp_path: Path) -> None:
    low = -8 if dtype == "int4" else 0
    kind = np.dtype(getattr(ml_dtypes, dtype))
    w, z = (numbers(low, low + 15, *shape).astype(kind) for shape in ((INNER, COLUMNS), (8, COLUMNS)))
    made = weights_model({"w": w, "s": scales(8, COLUMNS), "z": z}, **BY_BLOCKS)
    assert packed_node(imported(made, tmp_path)).attrs["bits"] == 4
    agrees(made, tmp_path)


@pytest.mark.parametrize("blocks", [False, True])
def test_a_matrix_that_is_transposed(blocks: bool, tmp_path: Path) -> None:
    known = {"w": numbers(-8, 7, COLUMNS, INNER), "s": scales(COLUMNS, 8) if blocks else scales(COLUMNS)}
    attrs = {"axis": 1, "block_size": 64} if blocks else {"axis": 0}
    made = weights_model(
        known,
        2,
        ("Transpose", ["d"], ["t"], {"perm": [1, 0]}),
        product=("MatMul", ["x", "t"], ["y"], {}),
        **attrs,
    )
    assert packed_node(imported(made, tmp_path)) is not None
    agrees(made, tmp_path)


@pytest.mark.parametrize("zeros", [False, True])
def test_columns_that_fill_no_plane(zeros: bool, tmp_path: Path) -> None:
    """With many weights, the result is copied without the added columns."""
    known = {"w": numbers(100, 115, INNER, 2050), "s": scales(2050), "z": numbers(101, 114, 2050)}
    known["z"] = known["z"] if zeros else np.full(2050, 108, np.int8)
    made = weights_model(known, 1, axis=1)
    node = packed_node(imported(made, tmp_path))
    assert (node.attrs["bits"], len(node.inputs) == 4) == (4, zeros)
    agrees(made, tmp_path)


def test_a_gemm_with_what_is_added(tmp_path: Path) -> None:
    known = {"w": numbers(-8, 7, COLUMNS, INNER), "s": scales(COLUMNS), "c": scales(COLUMNS)}
    made = weights_model(known, product=("Gemm", ["x", "d", "c"], ["y"], {"transB": 1}), axis=0)
    assert packed_node(imported(made, tmp_path)) is not None
    agrees(made, tmp_path)
    agrees(made, tmp_path, "bf16")


# --- which are not ---------------------------------------------------------------------------------------


def _few(*shape: int) -> Array:
    return numbers(-8, 7, *shape)


@pytest.mark.parametrize(
    ("known", "rows", "product", "attrs"),
    [
        ({"w": _few(INNER, COLUMNS), "s": scales()}, 65, None, {}),
        ({"w": _few(INNER, 64), "s": scales()}, 2, None, {}),
        ({"w": _few(INNER, 250), "s": scales()}, 2, None, {}),
        ({"w": _few(INNER, COLUMNS), "s": scales(INNER)}, 2, None, {"axis": 0}),
        ({"w": _few(INNER, COLUMNS), "s": scales(INNER, 4)}, 2, None, {"axis": 1, "block_size": 64}),
        ({"w": _few(INNER, COLUMNS), "s": np.float32(8)}, 2, None, {}),
        ({"w": _few(INNER, COLUMNS), "s": scales()}, 2, ("Gemm", ["x", "d"], ["y"], {"alpha": 0.5}), {}),
        ({"w": _few(COLUMNS, INNER), "s": scales()}, INNER, ("MatMul", ["d", "x"], ["y"], {}), {}),
    ],
    ids=[
        *("many rows", "few weights", "no whole planes", "scales of rows", "blocks of columns"),
        *("too large for fp16", "a factor", "on the left"),
    ],
)
def test_products_that_stay_as_they_are(
    known: dict[str, Array], rows: int, product: Node | None, attrs: dict[str, Any], tmp_path: Path
) -> None:
    made = weights_model(known, rows, product=product, **attrs)
    assert packed_node(imported(made, tmp_path)) is None


def test_scales_that_are_computed(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Mul", ["x", "x"], ["u"], "n0"),
        helper.make_node("ReduceMax", ["u", "axes"], ["s"], "n1", keepdims=0),
        helper.make_node("DequantizeLinear", ["w", "s"], ["d"], "n2"),
        helper.make_node("MatMul", ["x", "d"], ["y"], "n3"),
    ]
    known = {"w": _few(INNER, COLUMNS), "axes": np.array([0, 1])}
    made = model(nodes, {"x": (2, INNER)}, constants=known, opset=21, ir_version=10)
    assert packed_node(imported(made, tmp_path)) is None


# --- MatMulNBits -----------------------------------------------------------------------------------------


def few_bits(bits: int, block: int, points: bool) -> MicrosoftCall:
    """A call as onnxruntime's quantiser writes it."""
    blocks = INNER // block
    operands: dict[str, Array | None] = {
        "a": RNG.standard_normal((3, INNER)).astype(np.float32),
        "b": numbers(0, 255, COLUMNS, blocks, block * bits // 8, dtype="uint8"),
        "s": scales(COLUMNS, blocks),
        "z": numbers(0, 255, COLUMNS, -(-blocks * bits // 8), dtype="uint8") if points else None,
    }
    attrs = {"K": INNER, "N": COLUMNS, "bits": bits, "block_size": block}
    return MicrosoftCall("MatMulNBits", operands, attrs, known=["b", "s", "z"] if points else ["b", "s"])


@pytest.mark.parametrize("points", [False, True])
@pytest.mark.parametrize(("bits", "block"), [(4, 32), (4, 128), (8, 32), (2, 64)])
@pytest.mark.parametrize("dtype", ["fp16", "bf16"])
def test_weights_as_onnxruntime_packs_them(
    dtype: str, bits: int, block: int, points: bool, tmp_path: Path
) -> None:
    call = few_bits(bits, block, points)
    program = compiler.compile(call.graph(tmp_path), dtype, search="off")
    found = run.execute(program, call.feeds)[0]
    want = call.by_onnxruntime()["y"]
    assert "packed_weights" in program.text
    part = 2e-3 if dtype == "fp16" else 2e-2
    np.testing.assert_allclose(found["y"], want, rtol=0, atol=part * float(np.abs(want).max()))


def test_the_program_has_few_bits_in_ddr(tmp_path: Path) -> None:
    """512 x 256 numbers of 4 bits and 16 x 256 scales of 16: less than a third of the bytes of FP16."""
    program = compiler.compile(few_bits(4, 32, False).graph(tmp_path), "fp16", search="off")
    least = INNER * COLUMNS // 2 + 2 * INNER // 32 * COLUMNS
    assert least <= len(program.constants) < 1.05 * least


def test_in_fp32_weights_become_floats(tmp_path: Path) -> None:
    call = few_bits(4, 32, True)
    program, found = call.on_chip(tmp_path)
    want = call.by_onnxruntime()["y"]
    assert "packed_weights" not in program.text
    np.testing.assert_allclose(found["y"], want, rtol=0, atol=2e-5 * float(np.abs(want).max()))


@pytest.mark.parametrize("dtype", ["fp16", "bf16"])
def test_the_numbers_are_those_of_weights_that_were_rounded(dtype: str, tmp_path: Path) -> None:
    """A row of the unit matrix selects a row of the weights: number times scale, rounded to the format."""
    kind = np.dtype(np.float16 if dtype == "fp16" else ml_dtypes.bfloat16)
    w, s = numbers(-8, 7, INNER, COLUMNS), scales(8, COLUMNS).astype(kind)
    made = weights_model({"w": w, "s": s.astype(np.float32)}, **BY_BLOCKS)
    x = np.zeros((2, INNER), np.float32)
    x[0, 77] = x[1, 400] = 1
    program = compiler.compile(imported(made, tmp_path), dtype, search="off")
    found = run.execute(program, {"x": x})[0]["y"]
    exact = w[[77, 400]].astype(np.float64) * s[[1, 6]].astype(np.float64)
    assert "packed_weights" in program.text
    np.testing.assert_array_equal(found, exact.astype(kind).astype(np.float32))


@pytest.mark.parametrize("bits", [2, 4])
def test_the_search_decides(bits: int, tmp_path: Path) -> None:
    """The report has both variants, and the program has the chosen one, which is among the fast ones."""
    program = compiler.compile(few_bits(bits, 64, False).graph(tmp_path), "fp16")
    assert program.report is not None
    (template,) = [item for item in program.report.templates if len(item.tried) > 1]
    ways = {trial.cut.choices.get("way", "plan") for trial in template.tried if trial.cut is not None}
    assert "packed" in ways
    assert len(ways) > 1
    chosen = template.chosen is None or template.chosen.choices.get("way") == "packed"
    assert ("packed_weights" in program.text) == chosen
    least = min(trial.cycles for trial in template.tried if trial.cycles is not None)
    assert template.cycles is not None
    assert template.cycles <= 1.2 * least
