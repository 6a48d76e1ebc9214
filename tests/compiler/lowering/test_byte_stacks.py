"""Stacks of convolutions, pools and sums of bytes: the integers of separate phases, without hazards."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper, numpy_helper

import emulator
from asm.image import read_image, write_image
from compiler.codegen.slices.tensors import Stretch
from compiler.codegen.slices.windows import Geometry
from compiler.driver import Program, compile_graph
from compiler.graph import Array, Graph
from compiler.lowering.conv.quantised.sums import sum_parts
from compiler.lowering.pointwise.sums import sum_factors
from compiler.lowering.stack.ahead import even_groups, in_turns
from compiler.lowering.stack.byte_products import row_taps
from compiler.operators.quantised.sums import SumQuantisation
from compiler.passes.groups import borders
from compiler.tools import run
from onnx_models import imported, value
from onnx_oracle import onnxruntime
from planned_cuts import plan_with_cut
from quantised_nets import QuantisedNet, bottlenecks, fires
from tx8isa.machine.description import load_machine

GATHER = {"tiles": {"channels": 16}, "choices": {"between": "gather"}}


@pytest.fixture(autouse=True)
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if barriers took so long that every stack is worth it."""
    monkeypatch.setattr(borders, "barrier_cycles", lambda machine: 10**9)


def halo(rows: int, size: int) -> dict[str, Any]:
    return {"tiles": {"rows": rows}, "sizes": {"rows": size}, "choices": {"between": "halo"}}


def bands(rows: int, size: int) -> dict[str, Any]:
    return {"tiles": {"images": 1, "rows": rows}, "sizes": {"rows": size}, "choices": {"share": "weights"}}


def stacked(made: Graph, cut: dict[str, Any], folder: Path) -> Program:
    plan = plan_with_cut(made, "fp16", 16, "stacked", cut, folder)
    return compile_graph(made, "fp16", 16, plan=plan)


def outputs_of(program: Program, feeds: dict[str, Array]) -> dict[str, Array]:
    """Run and compare the outputs: no hazards, and equal bytes if engines write lines to their ends."""
    loaded = emulator.Program(read_image(write_image(program.image), "prog.bin"), program.machine)
    found = dict(loaded.run(feeds, strict=True))
    assert loaded.hazards == ()
    hostile = dict(loaded.run(feeds, write_span="hostile"))
    for name, values in found.items():
        np.testing.assert_array_equal(hostile[name], values)
    return found


@pytest.mark.long
@pytest.mark.parametrize(
    ("cut", "sizes"),
    [
        (GATHER, (256, 64, 7, 9)),
        (GATHER, (1024, 256, 6, 6, 2)),
        (GATHER, (2048, 512, 5, 4, 2)),
        (halo(14, 1), (128, 64, 14, 6)),
        (halo(7, 2), (256, 128, 28, 9, 2)),
        (bands(13, 1), (200, 72, 13, 5)),
        (bands(5, 2), (96, 24, 19, 8, 2)),
    ],
)
def test_blocks_with_sums(cut: dict[str, Any], sizes: tuple[int, ...], tmp_path: Path) -> None:
    assert_like_separate_phases(*bottlenecks(sum(sizes), *sizes), cut, tmp_path)


@pytest.mark.parametrize(
    ("cut", "sizes"),
    [(GATHER, (64, 12, 9, False)), (halo(7, 1), (24, 14, 7, True)), (bands(6, 1), (16, 13, 11, True))],
)
def test_joins_and_pools(cut: dict[str, Any], sizes: tuple[int, int, int, bool], tmp_path: Path) -> None:
    assert_like_separate_phases(*fires(sum(sizes), *sizes), cut, tmp_path)


@pytest.mark.parametrize(
    ("cut", "sizes"),
    [
        (GATHER, (1024, 256, 6, 6, 2)),
        (GATHER, (2048, 512, 5, 4)),
        (halo(14, 1), (128, 64, 14, 6)),
        (bands(13, 1), (200, 72, 13, 5)),
    ],
)
def test_blocks_whose_integers_may_be_a_step_away(
    cut: dict[str, Any], sizes: tuple[int, ...], tmp_path: Path
) -> None:
    model, shape = bottlenecks(sum(sizes), *sizes)
    made = replace(imported(model, tmp_path), near=True)
    feeds = {"x": np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)}
    program = stacked(made, cut, tmp_path)
    found = outputs_of(program, feeds)
    exact, separate = (
        run.execute(compile_graph(replace(made, near=near), "fp16", 16, residency="off"), feeds)[0]
        for near in (False, True)
    )
    assert " q1=" in program.text and "ct.cvt.int32.fp32" not in program.text
    for name, values in exact.items():
        apart, alone = (np.abs(each[name].astype(int) - values.astype(int)) for each in (found, separate))
        assert apart.max() <= alone.max() + 1  # the sums of a stack are off by one in other places
        assert apart.mean() <= 1


@pytest.mark.long
@pytest.mark.parametrize(("cut", "sizes"), [(GATHER, (64, 12, 9, False)), (halo(7, 1), (24, 14, 7, True))])
def test_joins_whose_integers_may_be_a_step_away(
    cut: dict[str, Any], sizes: tuple[int, int, int, bool], tmp_path: Path
) -> None:
    """Without sums they equal those of separate phases."""
    assert_like_separate_phases(*fires(sum(sizes), *sizes), cut, tmp_path, near=True)


@pytest.mark.long
def test_two_planes_whose_integers_may_be_a_step_away(tmp_path: Path) -> None:
    """Every tile has 128 maps of the second convolution."""
    net, shape = QuantisedNet(5, "uint8"), (1, 512, 5, 4)
    x = net.conv(net.quantised("x", shape, 0.03), 512, 1, relu=True)
    x = net.conv(net.conv(x, 2048, 1), 512, 3, relu=True)
    assert_like_separate_phases(net.model(shape, x), shape, GATHER, tmp_path, near=True)


@pytest.mark.parametrize(
    ("maps", "width", "wide"),
    [(128, 6, True), (192, 6, True), (256, 6, True), (64, 6, False), (128, 112, False)],
)
def test_planes_that_the_matrix_engine_writes_together(
    maps: int, width: int, wide: bool, tmp_path: Path
) -> None:
    """The TDMA engine takes few positions of several separated planes; the bytes equal those of separate
    phases."""
    net, shape = QuantisedNet(maps, "int8"), (1, 96, 7, width)
    x = net.conv(net.quantised("x", shape, 0.03), 24, 1, relu=True)
    model = net.model(shape, net.conv(net.expansions(x, maps), 24, 3, relu=True))
    made = replace(imported(model, tmp_path), near=True)
    text = stacked(made, halo(7, 1), tmp_path).text
    assert (".wide" in text) == wide
    assert_like_separate_phases(model, shape, halo(7, 1), tmp_path, near=True)


@pytest.mark.parametrize(("kernel", "relu"), [(1, True), (1, False), (3, True)])
def test_bytes_that_are_a_fifth_of_the_sums_are_at_most_a_step_away(
    kernel: int, relu: bool, tmp_path: Path
) -> None:
    """Any error in a sum on the way to bytes would show, because a step is five of its units."""
    net, shape = QuantisedNet(kernel, "uint8"), (1, 64, 5, 4)
    x = net.quantised("x", shape, 0.5, lowest=True)
    few = net.rng.integers(-1, 2, (128, 64, kernel, kernel)) * (
        net.rng.random((128, 64, kernel, kernel)) < 0.2
    )
    weights = net.op("DequantizeLinear", net.constant(few.astype(np.int8)), net.constant(np.float32(0.5)))
    made = net.op("Conv", x.name, weights, pads=[kernel // 2] * 4)
    y = net.quantised(net.op("Relu", made) if relu else made, (1, 128, 5, 4), 1.25, lowest=relu)
    model = net.model(shape, y)
    feeds = {"x": (100 * np.random.default_rng(1).random(shape)).astype(np.float32)}
    program = compile_graph(replace(imported(model, tmp_path), near=True), "fp16", 16)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (found,), want = outputs_of(program, feeds).values(), session.run(None, feeds)[0]
    assert " q1=" in program.text
    assert np.abs(found.astype(int) - want.astype(int)).max() <= 1
    assert want.max() > 60 and len(np.unique(want)) > 50


def assert_like_separate_phases(
    model: Any, shape: tuple[int, ...], cut: dict[str, Any], folder: Path, near: bool = False
) -> None:
    """A stack with a cut gives the integers of the same network whose values are all in DDR."""
    made = replace(imported(model, folder), near=near)
    feeds = {"x": np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)}
    want = run.execute(compile_graph(made, "fp16", 16, residency="off"), feeds)[0]
    found = outputs_of(stacked(made, cut, folder), feeds)
    for name, values in want.items():
        np.testing.assert_array_equal(found[name], values)


def test_integers_of_blocks_are_those_of_onnxruntime(tmp_path: Path) -> None:
    """All layers together, where onnxruntime itself computes integers: with unsigned values."""
    model, shape = bottlenecks(5, 64, 24, 13, 14)
    feeds = {"x": np.random.default_rng(1).standard_normal(shape).astype(np.float32)}
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (found,) = run.execute(compile_graph(imported(model, tmp_path), "fp16", 16, search="off"), feeds)[
        0
    ].values()
    np.testing.assert_array_equal(found, session.run(None, feeds)[0])


def summed_on_host(how: SumQuantisation, a: Array, b: Array) -> Array:
    """Compute the sum of bytes by onnxruntime, node by node."""
    nodes, known = [], dict[str, Array]()
    for name, scale, zero in (("a", how.a_scale, how.a_zero), ("b", how.b_scale, how.b_zero)):
        known |= {f"{name}s": np.float32(scale), f"{name}z": np.int8(zero)}
        nodes.append(helper.make_node("DequantizeLinear", [name, f"{name}s", f"{name}z"], [f"{name}f"]))
    known |= {"ys": np.float32(how.y_scale), "yz": np.int8(how.y_zero)}
    nodes.append(helper.make_node("Add", ["af", "bf"], ["c"]))
    nodes.append(helper.make_node("QuantizeLinear", ["c", "ys", "yz"], ["y"]))
    inputs, outputs = (
        [value("a", a.shape, np.int8), value("b", b.shape, np.int8)],
        [value("y", a.shape, np.int8)],
    )
    constants = [numpy_helper.from_array(np.asarray(array), name) for name, array in known.items()]
    graph = helper.make_graph(nodes, "sum", inputs, outputs, constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])
    found: Array = session.run(None, {"a": a, "b": b})[0]
    return found


@pytest.mark.parametrize("seed", range(6))
def test_numbers_of_sums_are_right_for_all_pairs_of_bytes(seed: int) -> None:
    rng = np.random.default_rng(seed)
    scales = [float(np.float32(each)) for each in rng.uniform(0.01, 0.1, 3)]
    zeros = [int(each) for each in rng.integers(-128, 128, 3)]
    how = SumQuantisation(scales[0], zeros[0], scales[1], zeros[1], scales[2], zeros[2], -128, 127)
    a, b = (each.astype(np.int8) for each in np.meshgrid(np.arange(-128, 128), np.arange(-128, 128)))
    want = summed_on_host(how, a, b)
    for found in (sum_factors(how), sum_parts(how)):
        assert found is not None
        np.testing.assert_array_equal(found.bytes_of(how, a, b), want)


@pytest.mark.parametrize("scales", [(1e-30, 1e-30, 1e30), (1e30, 1e30, 1e-3)])
def test_sums_without_such_numbers(scales: tuple[float, float, float]) -> None:
    """Their rounding steps equal those of ONNX."""
    how = SumQuantisation(scales[0], 0, scales[1], 0, scales[2], 0, -128, 127)
    assert sum_factors(how) is None or sum_parts(how) is None


def test_rows_of_a_window_for_many_slices() -> None:
    """A 3x3 window over 6 rows. The row that omits the last row of the result comes first, the row that omits
    none comes last."""
    geometry = Geometry(6, 5, (3, 3), (1, 1), (1, 1), (1, 1), 6, 5)
    taps = row_taps(geometry, Stretch(0, 16, 8), 16, None)
    assert [(tap.number, tap.first, tap.count, tap.image) for tap in taps] == [
        (2, 0, 5, 1),
        (0, 1, 5, 0),
        (1, 0, 6, 0),
    ]


@pytest.mark.parametrize(
    ("slices", "maps", "rows"),
    [(Stretch(0, 16, 3), 16, None), (Stretch(0, 64, 8), 128, None), (Stretch(64, 16, 8), 16, None)],
    ids=["few slices", "two planes of maps", "sums that have begun"],
)
def test_where_slices_are_taken_one_by_one(slices: Stretch, maps: int, rows: int | None) -> None:
    geometry = Geometry(6, 5, (3, 3), (1, 1), (1, 1), (1, 1), 6, 5)
    assert row_taps(geometry, slices, maps, rows) == []


@pytest.mark.parametrize(
    ("height", "slices", "fits"),
    [(6, 255, True), (6, 256, False), (32, 128, True), (33, 128, False)],
    ids=["the largest window", "a larger one", "the tallest image", "a taller one"],
)
def test_rows_of_a_window_keep_the_limits_of_the_engine(height: int, slices: int, fits: bool) -> None:
    """A window has at most 255 rows, and the image of all slices below each other at most 4,096."""
    geometry = Geometry(height, 5, (3, 3), (1, 1), (1, 1), (1, 1), height, 5)
    assert bool(row_taps(geometry, Stretch(0, 16, slices), 16, None)) is fits


def test_groups_of_weights_are_even() -> None:
    """All tiles load 75,000 bytes each in the time of a group; large weights are a separate group."""
    machine = load_machine(None)
    assert even_groups([100] * 4, machine, 16) == [[0], [1, 2, 3]]
    assert even_groups([40000] * 4, machine, 16) == [[0], [1], [2], [3]]
    assert even_groups([36000] * 6, machine, 16) == [[0], [1, 2], [3, 4], [5]]
    assert even_groups([10, 500000, 10, 10], machine, 16) == [[0], [1], [2, 3]]


@pytest.mark.parametrize(
    ("early", "first"), [(0, [0]), (99, [0]), (299, [0, 1]), (300, [0, 1, 2]), (9999, [0, 1, 2, 3])]
)
def test_the_first_group_is_what_comes_early(early: int, first: list[int]) -> None:
    groups = even_groups([100] * 4, load_machine(None), 16, early)
    assert groups[0] == first
    assert [number for group in groups for number in group] == [0, 1, 2, 3]


@pytest.mark.parametrize("early", [0, 200000])
@pytest.mark.parametrize("sizes", [[16000, 36000, 16000, 0] * 8, [150000, 65000, 0] * 6, [2000000] * 3])
def test_two_workers_load_in_turns(sizes: list[int], early: int) -> None:
    """A worker is awaited before it gets another group and before its group is needed."""
    machine = load_machine(None)
    groups = even_groups(sizes, machine, 16, early)
    plan = in_turns(groups, sizes, machine, 16)
    busy, there, on_their_way = set[int](), {*plan.first}, dict[int, list[int]]()
    for number in range(len(sizes)):
        for worker in plan.awaits.get(number, []):
            there |= {*on_their_way.pop(worker)}
            busy.remove(worker)
        assert number in there
        for worker, stages in plan.loads.get(number, []):
            assert worker not in busy
            busy.add(worker)
            on_their_way[worker] = stages
    assert not busy
    assert there == {*range(len(sizes))}
    for worker in {worker for workers in plan.awaits.values() for worker in workers}:
        last = max(number for number, workers in plan.awaits.items() if worker in workers)
        assert [number for number in range(len(sizes)) if plan.is_last(worker, number)] == [last]
