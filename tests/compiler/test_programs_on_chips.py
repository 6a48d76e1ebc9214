"""Networks on several chips: against the reference and a single chip, without hazards, over ranks of MPI."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec import UNSET

from chip_nets import decoder, growing_block, llama, on_chips, on_one, run_on_chips
from compiler.driver import Program, compile_graph
from compiler.frontend.onnx.importer import graph_of_bytes
from compiler.graph import Graph
from compiler.operators.domains.chips.collectives import REDUCE_SCATTER
from compiler.search.chips import parsed_degrees
from compiler.tools.run import random_inputs
from compiler_harness import draw, graph, ints
from emulator.program import Program as Loaded
from example_modules import example_modules
from expert_nets import batched, one_by_one
from mpi_tools import emulate, needs_mpi
from onnx_oracle import run_onnxruntime
from paths import ROOT
from sharded_nets import gated, mlp, normalized_first, normalized_last
from time_bench import warm
from token_nets import causal, encoder
from tx8isa.machine.description import Machine, load_machine


def batch() -> Graph:
    """Images of a batch: a convolution, a pool, a product."""
    nodes = [
        ("Conv", ["x", "w"], ["a"], {"pads": (1, 1, 1, 1)}),
        ("Relu", ["a"], ["b"], {}),
        ("GlobalAveragePool", ["b"], ["c"], {}),
        ("Reshape", ["c", "s"], ["d"], {}),
        ("Gemm", ["d", "v", "u"], ["y"], {"transB": 1}),
    ]
    weights = {"w": draw(16, 3, 3, 3), "s": ints(4, 16), "v": draw(10, 16), "u": draw(10)}
    return graph(nodes, {"x": (4, 3, 12, 12)}, weights)


@pytest.mark.parametrize(
    ("made", "mesh", "degrees"),
    [
        (normalized_first(), (2, 1), "tp=2"),
        (llama(), (2, 1), "tp=2"),
        (batch(), (2, 1), "dp=2"),
        (encoder(), (2, 1), "sp=2"),
        (one_by_one(rows=8, columns=32, inner=32), (2, 1), "ep=2"),
        pytest.param(llama(), (2, 1), "sp=2", marks=pytest.mark.long),
        pytest.param(llama(), (2, 2), "sp=4", marks=pytest.mark.long),
        pytest.param(normalized_last(), (2, 1), "sp=2", marks=pytest.mark.long),
        pytest.param(normalized_first(), (2, 2), "sp=2,tp=2", marks=pytest.mark.long),
        pytest.param(normalized_first(), (4, 2), "sp=4,tp=2", marks=pytest.mark.long),
        pytest.param(encoder(batch=2), (2, 2), "dp=2,sp=2", marks=pytest.mark.long),
        pytest.param(causal(), (2, 1), "sp=2", marks=pytest.mark.long),
        pytest.param(causal(masked=True, flat=True), (2, 2), "sp=2,tp=2", marks=pytest.mark.long),
        pytest.param(batched(), (2, 1), "ep=2", marks=pytest.mark.long),
        pytest.param(batched(repeated=True), (2, 2), "ep=4", marks=pytest.mark.long),
        pytest.param(one_by_one(way="Equal"), (2, 1), "ep=2", marks=pytest.mark.long),
        pytest.param(one_by_one(), (2, 2), "ep=2,tp=2", marks=pytest.mark.long),
        pytest.param(batched(), (2, 2), "sp=2,ep=2", marks=pytest.mark.long),
        pytest.param(gated(), (2, 2), "tp=4", marks=pytest.mark.long),
        pytest.param(normalized_last(), (2, 2), "tp=4", marks=pytest.mark.long),
        pytest.param(batch(), (2, 2), "dp=2,tp=2", marks=pytest.mark.long),
        pytest.param(normalized_first(), (4, 2), "tp=8", marks=pytest.mark.long),
    ],
)
def test_networks(made: Graph, mesh: tuple[int, int], degrees: str) -> None:
    program = on_chips(made, *mesh, degrees)
    outputs, judgements = run_on_chips(program)
    assert all(found.as_the_format_allows for found in judgements.values())
    assert program.spread is not None
    alone, joined = on_one(made, "fp16"), program.spread.joined(outputs)
    for name, wanted in alone.items():
        np.testing.assert_allclose(joined[name], wanted, rtol=0.02, atol=0.02)
    if not {"dp", "sp"}.intersection(degrees.replace("=", ",").split(",")):
        first = next(iter(outputs.values()))
        assert all(np.array_equal(each, first) for each in outputs.values())


@pytest.mark.long
def test_rows_of_sums_are_dealt_to_chips(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("compiler.search.chips.products.LARGE_SUM", 1)
    program = on_chips(normalized_first(), 2, 1, "tp=2")
    assert program.spread is not None
    operators = [node.op for node in program.spread.graph_of((0, 0)).nodes]
    assert operators.count(REDUCE_SCATTER) == 2
    assert all(found.as_the_format_allows for found in run_on_chips(program)[1].values())


def test_a_program_is_the_same_every_time() -> None:
    one, other = (on_chips(mlp(), 2, 1, "tp=2") for _ in range(2))
    assert one.text == other.text
    assert one.constants == other.constants
    assert b"".join(one.image_file) == b"".join(other.image_file)


def test_a_chip_has_only_its_own_constants() -> None:
    program = on_chips(mlp(rows=16, columns=512, bias=False), 2, 1, "tp=2")
    by_name = {segment.section: segment.size for segment in program.image.segments}
    whole = sum(array.size * 2 for array in program.graph.constants.values())
    assert by_name[".ddr"] == by_name[".ddr.chips.1"]
    assert by_name[".ddr"] < 0.6 * whole


@pytest.mark.long
@needs_mpi
def test_two_ranks_give_the_same_bytes(tmp_path: Path) -> None:
    on_chips(mlp(rows=16, columns=128), 2, 1, "tp=2").write(tmp_path)
    run = ["prog.bin", "--random", "0", "-q", "--stats=json"]
    done = [emulate(ranks, *run, "--output-dir", f"out{ranks}", folder=tmp_path) for ranks in (1, 2)]
    assert [(each.returncode, each.stderr) for each in done] == [(0, "")] * 2
    assert done[0].stdout == done[1].stdout
    files = [sorted((tmp_path / f"out{ranks}").iterdir()) for ranks in (1, 2)]
    assert [path.name for path in files[0]] == ["chip0.y.npy", "chip1.y.npy"]
    assert [path.read_bytes() for path in files[0]] == [path.read_bytes() for path in files[1]]


def test_groups_that_have_grown_are_the_same_on_all_chips() -> None:
    program = on_chips(growing_block(), 2, 1, "tp=2")
    assert program.spread is not None
    assert len(program.spread.parts) == 2
    assert {".ddr", ".ddr.chips.1"} <= {segment.section for segment in program.image.segments}


def layers(count: int = 3, batch: int = 4) -> Graph:
    """Normalizations and products with residuals; the last stage of a pipeline reads the input, too."""
    nodes: list[Any] = []
    weights = {"g": draw(64)}
    for at in range(count):
        weights |= {f"w{at}": draw(64, 128, seed=at) / 8, f"v{at}": draw(128, 64, seed=at + 9) / 8}
        nodes += [
            ("RMSNormalization", [f"x{at}" if at else "x", "g"], [f"n{at}"], {}),
            ("MatMul", [f"n{at}", f"w{at}"], [f"h{at}"], {}),
            ("Relu", [f"h{at}"], [f"r{at}"], {}),
            ("MatMul", [f"r{at}", f"v{at}"], [f"d{at}"], {}),
            ("Add", [f"d{at}", f"x{at}" if at else "x"], [f"x{at + 1}"], {}),
        ]
    nodes.append(("Add", [f"x{count}", "x"], ["y"], {}))
    return graph(nodes, {"x": (batch, 8, 64)}, weights, opset=23)


def images(batch: int = 4) -> Graph:
    """Convolutions with a residual as in ResNet, in the engines' own order of channels, and a product."""
    nodes: list[Any] = [
        ("Conv", ["x", "w0"], ["a"], {"pads": (1, 1, 1, 1)}),
        ("Relu", ["a"], ["b"], {}),
        ("Conv", ["b", "w1"], ["c"], {}),
        ("Relu", ["c"], ["d"], {}),
        ("Conv", ["d", "w2"], ["e"], {"pads": (1, 1, 1, 1)}),
        ("Add", ["e", "b"], ["f"], {}),
        ("Relu", ["f"], ["h"], {}),
        ("GlobalAveragePool", ["h"], ["i"], {}),
        ("Reshape", ["i", "flat"], ["j"], {}),
        ("MatMul", ["j", "w3"], ["y"], {}),
    ]
    weights = {"w0": draw(32, 3, 3, 3), "w1": draw(32, 32, 1, 1), "w2": draw(32, 32, 3, 3) / 8}
    return graph(nodes, {"x": (batch, 3, 10, 10)}, weights | {"flat": ints(batch, 32), "w3": draw(32, 10)})


@pytest.mark.parametrize(
    ("made", "mesh", "degrees"),
    [
        pytest.param(layers(), (2, 1), "pp=2", marks=pytest.mark.long),
        pytest.param(images(), (2, 1), "pp=2", marks=pytest.mark.long),
        pytest.param(layers(), (3, 1), "pp=3", marks=pytest.mark.long),
        pytest.param(layers(), (2, 2), "dp=2,pp=2", marks=pytest.mark.long),
        pytest.param(layers(4, 16), (2, 2), "pp=4", marks=pytest.mark.long),
        pytest.param(normalized_first(), (2, 1), "pp=2", marks=pytest.mark.long),
        pytest.param(layers(2, 2), (2, 2), "tp=2,pp=2", marks=pytest.mark.long),
        pytest.param(llama(16, 64, 4, 2), (2, 2), "tp=2,pp=2", marks=pytest.mark.long),
        pytest.param(llama(16, 64, 8, 4), (4, 2), "tp=4,pp=2", marks=pytest.mark.long),
        pytest.param(layers(4, 8), (4, 2), "tp=2,pp=4", marks=pytest.mark.long),
        pytest.param(layers(2, 4), (4, 2), "dp=2,tp=2,pp=2", marks=pytest.mark.long),
        pytest.param(encoder(batch=2), (2, 2), "tp=2,pp=2", marks=pytest.mark.long),
        pytest.param(encoder(batch=2), (4, 2), "tp=4,pp=2", marks=pytest.mark.long),
        pytest.param(encoder(batch=2), (2, 2), "sp=2,pp=2", marks=pytest.mark.long),
        pytest.param(one_by_one(rows=8, columns=32, inner=32), (2, 2), "ep=2,pp=2", marks=pytest.mark.long),
        pytest.param(decoder(batch=4), (2, 1), "pp=2", marks=pytest.mark.long),
    ],
)
def test_pipelines(made: Graph, mesh: tuple[int, int], degrees: str) -> None:
    program = on_chips(made, *mesh, degrees)
    outputs, judgements = run_on_chips(program)
    assert all(found.as_the_format_allows for found in judgements.values())
    assert program.spread is not None
    alone, joined = on_one(made, "fp16"), program.spread.joined(outputs)
    for name, wanted in alone.items():
        np.testing.assert_allclose(joined[name], wanted, rtol=0.02, atol=0.02)


@pytest.mark.long
@pytest.mark.parametrize(
    ("mesh", "degrees"),
    [((4, 2), "sp=4,tp=2"), ((4, 2), "tp=4,pp=2"), ((2, 2), "tp=2,pp=2"), ((2, 2), "sp=2,pp=2")],
)
def test_a_block_gives_what_onnxruntime_gives(mesh: tuple[int, int], degrees: str) -> None:
    with example_modules(ROOT / "examples" / "networks", ("transformers",)) as found:
        model = found.transformers.transformer(found.transformers.Size(16, 64, 4, 1))
    program = on_chips(graph_of_bytes(model.SerializeToString(), "block.onnx"), *mesh, degrees)
    outputs, _ = run_on_chips(program)
    assert program.spread is not None
    (joined,) = program.spread.joined(outputs).values()
    wanted = run_onnxruntime(model, random_inputs(program.graph, {}, 3))
    np.testing.assert_allclose(joined, wanted, rtol=0.02, atol=0.02)


def test_a_pipeline_has_the_sums_of_a_single_chip() -> None:
    """No sum is of several chips, so results in FP32 are the same to the bit."""
    made = layers(2)
    program = on_chips(made, 2, 1, "pp=2", "fp32")
    outputs = run_on_chips(program, strict=False)[0]
    assert program.spread is not None
    assert np.array_equal(program.spread.joined(outputs)["y"], on_one(made, "fp32")["y"])


def side_by_side(values: int, batch: int = 3) -> Graph:
    """Several products of the input, and a product of each; these cross the cut between them."""
    numbers = range(values)
    nodes: list[Any] = [("MatMul", ["x", f"w{at}"], [f"a{at}"], {}) for at in numbers]
    nodes += [("MatMul", [f"a{at}", f"v{at}"], [f"b{at}"], {}) for at in numbers]
    nodes.append(("Sum", [f"b{at}" for at in numbers], ["y"], {}))
    names = [f"{name}{at}" for name in "wv" for at in numbers]
    weights = {name: draw(128, 128, seed=seed) / 8 for seed, name in enumerate(names)}
    return graph(nodes, {"x": (batch, 16, 128)}, weights)


def in_two_stages(made: Graph, machine: Machine | None = None) -> Program:
    machine = (machine or load_machine(None)).of_chips(2, 1)
    return compile_graph(made, "fp16", machine=machine, parallel=parsed_degrees("pp=2"), search="off")


def test_stages_send_while_they_compute(monkeypatch: pytest.MonkeyPatch) -> None:
    """The results equal those of stages that wait until all is sent, but come earlier.

    Prices without first uses, because the first execution of both stages' code would hide the links.
    """
    found = []
    for channels in (3, 1):  # with one channel nothing is sent in the background
        monkeypatch.setattr("compiler.search.chips.pipelines.stages.CHANNELS", channels)
        program = in_two_stages(side_by_side(1, batch=4), warm(load_machine(None)))
        assert program.spread is not None
        loaded = Loaded(program.image, program.machine)
        mesh = loaded.start_chips(program.spread.dealt(random_inputs(program.graph, {}, 3)))
        mesh.run()
        found.append((mesh.cycles, program.spread.joined(loaded.results_of_chips(mesh))["y"]))
    (meanwhile, one), (afterwards, other) = found
    chips = program.machine.chips
    assert chips is not UNSET
    assert np.array_equal(one, other)
    assert meanwhile < afterwards - 2 * chips.latency.value


def test_inboxes_of_several_values() -> None:
    """Two are sent in the background, the third is not; every part arrives in the right inbox."""
    made = side_by_side(3)
    program = in_two_stages(made)
    outputs, judgements = run_on_chips(program)
    assert program.spread is not None
    assert all(f"chips.inbox{number}:" in program.text for number in range(6))
    assert all(found.as_the_format_allows for found in judgements.values())
    inputs = random_inputs(made, {}, 3)
    wanted = sum(inputs["x"] @ made.constants[f"w{at}"] @ made.constants[f"v{at}"] for at in range(3))
    np.testing.assert_allclose(program.spread.joined(outputs)["y"], wanted, rtol=0.02, atol=0.05)


def test_parts_of_inputs_are_cast_one_by_one() -> None:
    """A stage reads them without a copy."""
    text = in_two_stages(side_by_side(1)).text
    assert "# chips.Take" not in text
    casts = [line for line in text.splitlines() if "# cast" in line]
    assert casts
    assert not any("3x16x128" in line for line in casts)


@pytest.mark.long
def test_a_stage_copies_parts_of_a_state() -> None:
    """Other parts may have been written."""
    assert "# chips.Take" in in_two_stages(decoder(batch=4)).text


def test_a_stage_has_only_its_own_constants() -> None:
    program = on_chips(layers(2), 2, 1, "pp=2")
    by_name = {segment.section: segment.size for segment in program.image.segments}
    whole = sum(array.size * 2 for array in program.graph.constants.values())
    assert by_name[".ddr"] == by_name[".ddr.chips.1"]
    assert by_name[".ddr"] < 0.7 * whole
    assert [buffer.name for buffer in program.image.buffers] == ["x", "y"]


@pytest.mark.long
@needs_mpi
@pytest.mark.parametrize(("mesh", "degrees"), [((2, 1), "pp=2"), ((2, 2), "tp=2,pp=2")])
def test_two_ranks_run_a_pipeline_with_the_same_bytes(
    mesh: tuple[int, int], degrees: str, tmp_path: Path
) -> None:
    on_chips(layers(2), *mesh, degrees).write(tmp_path)
    run = ["prog.bin", "--random", "0", "-q", "--stats=json"]
    done = [emulate(ranks, *run, "--output-dir", f"out{ranks}", folder=tmp_path) for ranks in (1, 2)]
    assert [(each.returncode, each.stderr) for each in done] == [(0, "")] * 2
    assert done[0].stdout == done[1].stdout
    for path in (tmp_path / "out1").iterdir():
        assert path.read_bytes() == (tmp_path / "out2" / path.name).read_bytes()
