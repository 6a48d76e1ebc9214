"""Sharded sequences of products of bytes: the integers of onnxruntime, without hazards, on every mesh."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import compiler.lowering.sharded.schedule as schedule
import emulator
from asm.image import read_image, write_image
from compiler.driver import Program, compile_graph
from compiler.graph import Array, Graph
from compiler.lowering.rows.centring import weights_of_mean
from compiler.passes.groups import borders
from compiler.quantise import Goal, Settings, quantise, samples_of
from compiler.tools.run import check
from onnx_models import imported
from onnx_oracle import onnxruntime
from planned_cuts import plan_with_cut
from quantised_nets import byte_encoder, byte_mlp
from sharded_nets import normalized_first
from tx8isa.numbers.formats import Format


@pytest.fixture(autouse=True)
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if barriers took so long that every sequence is worth it."""
    monkeypatch.setattr(borders, "barrier_cycles", lambda machine: 10**9)


def drawn(shape: tuple[int, ...], seed: int) -> dict[str, Array]:
    return {"x": np.random.default_rng(seed).standard_normal(shape).astype(np.float32)}


def runtime(made: Any, feeds: dict[str, Array]) -> Array:
    """The output by onnxruntime."""
    session = onnxruntime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    return np.asarray(session.run(None, feeds)[0])


def on_chip(program: Program, feeds: dict[str, Array]) -> Array:
    """The output, after a run without hazards."""
    loaded = emulator.Program(read_image(write_image(program.image), "prog.bin"), program.machine)
    found = loaded.run(feeds, strict=True)
    assert loaded.hazards == ()
    return np.asarray(next(iter(found.values())))


def tags(program: Program) -> list[str]:
    assert program.report is not None
    return [phase.tag for phase in program.report.phases]


def on_mesh(made: Graph, dtype: str, mesh: tuple[int, int], folder: Path) -> Program:
    """The program in which the sharded sequence is divided over a mesh, as a plan says."""
    cut = {"tiles": {"rows": mesh[0], "columns": mesh[1]}}
    return compile_graph(made, dtype, 16, plan=plan_with_cut(made, dtype, 16, "sharded", cut, folder))


@pytest.mark.parametrize(("seed", "dtype"), [(1, "uint8"), (2, "int8"), (3, "uint8")])
def test_products_quantised_at_once_give_the_integers_of_onnxruntime(
    seed: int, dtype: str, tmp_path: Path
) -> None:
    made, shape = byte_mlp(seed, dtype, 32, 128)
    feeds, program = drawn(shape, seed), compile_graph(imported(made, tmp_path), "fp16", 16)
    assert "sharded" in tags(program)
    got, want = on_chip(program, feeds).astype(int), runtime(made, feeds).astype(int)
    assert np.abs(got - want).max() <= (dtype == "int8")
    assert np.count_nonzero(got != want) <= (max(1, got.size // 1000) if dtype == "int8" else 0)


@pytest.mark.parametrize(
    ("dtype", "seed", "least", "floats_first"),
    [("fp16", 1, 0.9999, False), ("bf16", 2, 0.9997, False), ("fp16", 3, 0.9999, True)],
)
def test_a_block_is_near_that_of_onnxruntime(
    dtype: str, seed: int, least: float, floats_first: bool, tmp_path: Path
) -> None:
    """Some bytes are rounded to the next integer; the limits are those of separate phases.

    With ``floats_first``, a product of floats adds the zero point of the bytes that attention makes.
    """
    made, shape = byte_encoder(seed, "uint8", floats_first=floats_first)
    feeds, source = drawn(shape, seed), imported(made, tmp_path)
    program = compile_graph(source, dtype, 16)
    assert "sharded" in tags(program)
    assert "ne.conv.int8" in program.text and "ct.lut16" in program.text
    got, want = on_chip(program, feeds).ravel(), runtime(made, feeds).ravel()
    assert got @ want / np.linalg.norm(got) / np.linalg.norm(want) > least
    assert check(program, feeds).ok


@pytest.mark.long
@pytest.mark.parametrize("mesh", [(4, 4), (8, 2), (2, 4), (16, 1), (1, 4), (1, 1)])
def test_every_mesh(tmp_path: Path, mesh: tuple[int, int]) -> None:
    made, shape = byte_mlp(5, "int8", 64, 256)
    feeds, source = drawn(shape, 5), imported(made, tmp_path)
    program = on_mesh(source, "fp16", mesh, tmp_path)
    assert check(program, feeds).ok
    on_chip(program, feeds)


@pytest.mark.parametrize("heads", [4, 8, 16])
def test_a_quantised_block_is_one_sequence(heads: int) -> None:
    """Heads that fill a plane, and narrow ones; attention reads and writes bytes as products of bytes need
    them."""
    graph = normalized_first(heads=heads)
    samples = np.random.default_rng(0).standard_normal((8, *graph.inputs[0].shape)).astype(np.float32)
    given = samples_of({"x": samples}, graph)
    program = compile_graph(quantise(graph, given, Settings("minmax"), Goal()).graph, "fp16", 16)
    assert program.report is not None
    (phase,) = [phase for phase in program.report.phases if phase.tag == "sharded"]
    operators = [member.operator for member in phase.members]
    assert operators.count("Int8MatMul") == 4 and "FusedAttention" in operators
    feeds = {"x": samples[0]}
    on_chip(program, feeds)
    assert check(program, feeds).ok


def test_weights_in_parts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Sums of bytes continue from part to part of the inner dimension in int32."""
    monkeypatch.setattr(schedule, "_MOST_WEIGHTS", 1 << 13)
    made, shape = byte_mlp(4, "uint8", 32, 256)
    feeds, program = drawn(shape, 4), compile_graph(imported(made, tmp_path), "fp16", 16)
    assert "sharded" in tags(program) and "psum_format=int32" in program.text
    np.testing.assert_array_equal(on_chip(program, feeds), runtime(made, feeds))


@pytest.mark.long
def test_values_in_ddr(tmp_path: Path) -> None:
    """Without sequences every product is a phase of its own, with the sums and activations after it."""
    made, shape = byte_encoder(6, "uint8")
    feeds, source = drawn(shape, 6), imported(made, tmp_path)
    program = compile_graph(source, "fp16", 16, residency="off")
    assert "sharded" not in tags(program)
    assert check(program, feeds).ok
    on_chip(program, feeds)


@pytest.mark.parametrize("fmt", [Format.FP16, Format.BF16])
@pytest.mark.parametrize("count", [64, 128, 192, 384, 448, 512])
def test_weights_of_a_mean_add_up_to_one(count: int, fmt: Format) -> None:
    (low, few), (high, others) = weights_of_mean(count, fmt)
    assert few + others == count and few >= 0 and others >= 0
    assert low <= 1 / count <= high
    assert abs(few * low + others * high - 1) <= (high - low) / 2
