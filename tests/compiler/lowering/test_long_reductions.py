"""Reductions of long runs and operators on long rows, which tiles share. They are right in every division,
without a race, and chosen where they save time."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest

import compiler
from compiler.codegen.kernel import Kernel, Target
from compiler.codegen.slices.tensors import DdrTensor
from compiler.codegen.teams.collective import Exchange, fold_halves
from compiler.codegen.teams.team import tile_grid
from compiler.driver import compile_graph
from compiler.graph import Array, Graph, Shape, Tensor
from compiler.lowering.generate import attempt
from compiler.lowering.record import LOWERINGS, Cut, Work
from compiler.operators.record import Call
from compiler.tools import run
from compiler_harness import assert_right, draw, graph, ints, one, small_machine
from phase_harness import output_of, phase_program, travelling
from time_bench import warm
from tx8isa.machine.description import Machine, load_machine
from tx8isa.numbers.formats import Format

SPM = load_machine(None).spm.reserved
WARM = warm(load_machine(None))
"""A machine on which sharing pays for small tensors, because no command is cold in an exchange."""
FOLDS = {"ReduceSum": np.sum, "ReduceMean": np.mean, "ReduceMax": np.max}


@dataclass(frozen=True)
class Case:
    """A reduction of integers as a single phase: its operand and NumPy's exact result."""

    work: Work
    data: Array
    want: Array

    def cuts(self, tiles: int) -> list[Cut]:
        proposed = LOWERINGS[self.work.op].cuts
        assert proposed is not None
        return list(proposed(Target(tiles, SPM, self.work.output.fmt), self.work))

    def check(self, cut: Cut | None, tiles: int, spm: int | None = None) -> None:
        """Exact, free of hazards, the same on any number of threads."""
        work = replace(self.work, cut=cut)
        machine = None if spm is None else small_machine(spm)

        def lower(kernel: Kernel) -> None:
            lowered = LOWERINGS[work.op].lower
            assert lowered is not None
            lowered(kernel, work)

        source = self.work.input(0)
        program, _ = phase_program(lower, [source], self.work.output, tiles, machine)
        given = travelling({"a": self.data}, [source])
        once = output_of(program, given)
        assert np.array_equal(once.astype(np.float64).reshape(self.want.shape), self.want), cut
        assert program.run(given, threads=2)["y"].tobytes() == once.tobytes()


def reduction(op: str, shape: Shape, axes: tuple[int, ...], fmt: Format = Format.FP16) -> Case:
    """The operand has small integers whose folds are exact in FP32; a mean is rounded once."""
    data = np.random.default_rng(7).integers(-4, 5, shape).astype(np.float64)
    want = np.asarray(FOLDS[op](data, axis=axes)).astype(np.float32).astype(np.float64)
    call = Call(20, {"axes": axes, "keepdims": 0}, (Tensor("a", "float32", shape),), (None,), ("y",))
    output = DdrTensor("y", Format.FP32, want.shape or (1,))
    work = Work("n", op, (DdrTensor("a", fmt, shape),), output, call=call)
    return Case(work, data, want.reshape(output.shape))


SHAPES = [
    ((9000,), (0,)),
    ((3, 2500), (1,)),
    ((20, 1100), (1,)),
    ((5, 700, 3), (1,)),
    ((2, 129, 10), (1,)),
    ((300, 64), (0,)),
    ((1000, 6), (0,)),
    ((40, 256), (0,)),
    ((77, 130), (0,)),
    ((4, 3, 2000), (1, 2)),
]


@pytest.mark.parametrize("tiles", [1, 5, 16])
@pytest.mark.parametrize(("shape", "axes"), SHAPES)
def test_every_way_to_reduce(shape: Shape, axes: tuple[int, ...], tiles: int) -> None:
    case = reduction("ReduceSum", shape, axes)
    found = case.cuts(tiles)
    assert found[-1].choice("way", "") == "lanes"
    for cut in found[: 1 if tiles == 1 else 2]:
        assert cut.choice("way", "") == "long"
        case.check(cut, tiles)


def test_tiles_with_fewer_runs_than_others() -> None:
    """The last tiles have one run where the first ones have two."""
    case = reduction("ReduceSum", (5, 1500), (1,))
    (cut,) = [c for c in case.cuts(7) if c.parts("outer") == 3 and c.choice("exchange", "") == "ddr"]
    case.check(cut, 7)


@pytest.mark.long
@pytest.mark.parametrize("fmt", [Format.FP16, Format.BF16, Format.TF32, Format.FP32])
@pytest.mark.parametrize("op", ["ReduceMean", "ReduceMax"])
def test_formats_and_folds(op: str, fmt: Format) -> None:
    """All numbers are negative, so padding must not become the largest of them."""
    case = reduction(op, (3, 4096), (1,), fmt)
    if op == "ReduceMax":
        case = replace(case, data=case.data - 9, want=case.want - 9)
    for cut in case.cuts(16)[:2]:
        case.check(cut, 16)


@pytest.mark.parametrize("op", ["ReduceSum", "ReduceMean", "ReduceMax"])
@pytest.mark.parametrize(
    ("shape", "axes"),
    [
        ((3, 5, 7, 11), (0, 2)),
        ((2, 16, 30, 40), (0, 2, 3)),
        ((4, 1, 3, 1, 5), (0, 1, 4)),
        ((1, 6, 1), (0, 2)),
        ((8, 2, 8, 2, 8), (0, 2, 4)),
        ((1, 1), (0, 1)),
    ],
)
def test_axes_that_do_not_lie_together(shape: Shape, axes: tuple[int, ...], op: str) -> None:
    reduction(op, shape, axes).check(None, 16)


@pytest.mark.parametrize("seed", range(8))
def test_random_reductions_on_any_scratchpad(seed: int) -> None:
    draws = np.random.default_rng(seed)
    outer, inner = int(draws.choice([1, 2, 7, 19])), int(draws.choice([1, 1, 4, 10, 64, 100]))
    axis = 1024 // inner + int(draws.integers(1, 3000))
    case = reduction("ReduceSum", (outer, axis, inner), (1,), (Format.FP16, Format.FP32)[seed % 2])
    tiles = int(draws.choice([3, 5, 16]))
    case.check(None, tiles, int(draws.choice([0x8000, 0x20000])))
    case.check(case.cuts(tiles)[0], tiles)


@pytest.mark.parametrize("tiles", [1, 16])
@pytest.mark.parametrize(
    "op", ["ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceL2", "ReduceLogSumExp"]
)
def test_reductions_of_everything(op: str, tiles: int) -> None:
    assert_right(one(op, [(3, 50, 61)], keepdims=0), "fp16", tiles)


@pytest.mark.parametrize("dtype", ["fp32", "tf32", "fp16", "bf16"])
@pytest.mark.parametrize(
    ("shape", "tiles"), [((1, 5003), 16), ((3, 4100), 16), ((9, 4096), 16), ((2, 5000), 4)]
)
def test_softmax_of_long_rows(shape: Shape, tiles: int, dtype: str) -> None:
    assert_right(one("Softmax", [shape]), dtype, tiles, scale=4.0)


def test_softmax_of_difficult_long_rows() -> None:
    """Equal values, one giant, numbers far below zero, masks of minus infinity, in the part of one tile or of
    all."""
    x = draw(6, 4500)
    x[0] = 3.0
    x[1, 4499] = 60000.0
    x[2] -= 20000.0
    x[3, 1:] = -np.inf
    x[4, ::2] = -np.inf
    x[5, :4400] = -np.inf
    assert_right(one("Softmax", [(6, 4500)]), "fp16", inputs={"a": x})


@pytest.mark.long
@pytest.mark.parametrize("dtype", ["fp32", "fp16", "bf16"])
@pytest.mark.parametrize("op", ["LayerNormalization", "RMSNormalization"])
@pytest.mark.parametrize(("rows", "tiles"), [(1, 16), (3, 16), (9, 4)])
def test_normalization_of_long_rows(op: str, dtype: str, rows: int, tiles: int) -> None:
    size = 4999
    parameters = {name: draw(size, seed=i) for i, name in enumerate("sb" if op[0] == "L" else "s")}
    made = graph([(op, ["x", *parameters], ["y"], {"axis": 1})], {"x": (rows, size)}, parameters, opset=23)
    inputs = {"x": draw(rows, size) + np.float32(3)}
    assert_right(made, dtype, tiles, inputs=inputs)


def test_a_scale_that_is_computed() -> None:
    node = ("LayerNormalization", ["x", "s"], ["y"], {"axis": 1})
    assert_right(graph([node], {"x": (2, 70, 90), "s": (70, 90)}), "fp16")


ROWS = [one("Softmax", [(2, 5003)]), one("LayerNormalization", [(2, 5003)], {"s": draw(5003)})]


@pytest.mark.parametrize("made", ROWS, ids=["Softmax", "LayerNormalization"])
def test_rows_without_a_hazard_whatever_the_threads(made: Graph) -> None:
    import emulator

    program = compiler.compile(made, "fp16", search="off")
    assert program.report.phases
    loaded = emulator.Program(program.image, program.machine)
    given = run.random_inputs(made, {}, 3)
    once = loaded.run(given, strict=True)["y"]
    assert not loaded.hazards, loaded.hazards[0]
    for threads in (1, 2):
        assert loaded.run(given, threads=threads)["y"].tobytes() == once.tobytes()


def best_ways(made: Graph) -> set[str]:
    """Return the best candidates' cuts of the operator itself, the only template with several cuts."""
    found = compiler.compile(made, "fp16").report.templates
    (template,) = [t for t in found if any(trial.cut and "way" in trial.cut.choices for trial in t.tried)]
    least = min(trial.cycles for trial in template.tried if trial.cycles is not None)
    return {
        trial.cut.choices.get("way", "whole rows")
        for trial in template.tried
        if trial.cut and trial.cycles == least
    }


@pytest.mark.parametrize(
    ("made", "long"),
    [
        (one("ReduceSum", [(40, 40, 40)]), True),
        (one("ReduceMean", [(4096, 1024)], {"axes": ints(1)}), False),
        (one("Softmax", [(2, 20000)]), True),
        (one("Softmax", [(2000, 600)]), False),
    ],
)
def test_the_search_shares_where_it_pays(made: Graph, long: bool) -> None:
    assert ("long" in best_ways(made)) == long


@pytest.mark.parametrize(
    "cut",
    [
        Cut((("outer", 3), ("axis", 5)), (("axis", 63),), (("way", "long"), ("exchange", "ddr"))),
        Cut((("outer", 3), ("axis", 6)), (("axis", 640),), (("way", "long"), ("exchange", "ddr"))),
        Cut((("outer", 1), ("axis", 16)), (("axis", 640),), (("way", "long"), ("exchange", "mail"))),
    ],
)
def test_cuts_of_another_reduction_are_refused(cut: Cut) -> None:
    case = reduction("ReduceSum", (3, 9000), (1,))
    with pytest.raises(ValueError, match="does not divide Folds"):
        attempt("p0", replace(case.work, cut=cut), Target(16, SPM, Format.FP16), SPM, False)


LONG_ROWS = (("way", "long"), ("exchange", "ddr"))


@pytest.mark.parametrize(
    ("op", "shape", "cut", "message"),
    [
        ("Softmax", (2, 9000), Cut((("outer", 2), ("axis", 5)), (), LONG_ROWS), "does not divide these rows"),
        ("Softmax", (2, 9000), Cut((("outer", 2), ("axis", 8)), (), LONG_ROWS[:1]), "does not divide"),
        ("Softmax", (9000, 2, 3), Cut((("outer", 2), ("axis", 8)), (), LONG_ROWS), "does not divide"),
        ("GlobalAveragePool", (1, 7, 7, 64), Cut(choices=LONG_ROWS), "no planes that tiles share"),
    ],
)
def test_cuts_of_other_rows_are_refused(op: str, shape: Shape, cut: Cut, message: str) -> None:
    call = Call(20, {"axis": 1}, (Tensor("a", "float32", shape),), (None,), ("y",))
    operand, output = DdrTensor("a", Format.FP16, shape), DdrTensor("y", Format.FP16, shape)
    work = Work("n", op, (operand,), output, cut, call=call)
    with pytest.raises(ValueError, match=message):
        attempt("p0", work, Target(16, SPM, Format.FP16), SPM, False)


def test_short_runs_are_folded_in_lanes() -> None:
    assert not reduction("ReduceSum", (512, 64), (1,)).cuts(16)


# --- pools -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["fp32", "fp16"])
@pytest.mark.parametrize(
    "shape", [(1, 8, 100, 100), (1, 40, 50, 60), (1, 72, 60, 70), (1, 150, 70, 71), (2, 8, 70, 80)]
)
def test_global_pools_of_few_channels(shape: Shape, dtype: str) -> None:
    """Narrow planes, whole planes, several planes with a narrower one; two images, of which tiles share
    nothing."""
    made = one("GlobalAveragePool", [shape])
    assert_right(made, dtype, machine=WARM)
    program = compiler.compile(made, dtype, machine=WARM)
    assert ("inbox" in program.text) == (shape[0] == 1)


@pytest.mark.parametrize("channels", [24, 40, 72])
def test_global_pools_behind_a_convolution(channels: int) -> None:
    """The operand is another phase's result in planes, whose padding lanes have arbitrary contents."""
    import emulator

    nodes = [("Conv", ["x", "w"], ["c"], {}), ("GlobalAveragePool", ["c"], ["y"], {})]
    made = graph(nodes, {"x": (1, 8, 60, 60)}, {"w": draw(channels, 8, 1, 1)})
    program = compile_graph(made, "fp16", machine=WARM, residency="off")
    assert "inbox" in program.text
    verdicts = run.check(program, run.random_inputs(made, {}, 3)).verdicts
    assert all(verdict.ok for verdict in verdicts.values())
    loaded = emulator.Program(program.image, program.machine)
    loaded.run(run.random_inputs(made, {}, 3), strict=True)
    assert not loaded.hazards, loaded.hazards[0]


@pytest.mark.parametrize("machine", [None, WARM], ids=["cold", "warm"])
def test_a_pool_of_short_planes_is_not_shared(machine: Machine | None) -> None:
    made = one("GlobalAveragePool", [(1, 64, 7, 7)])
    assert "inbox" not in compiler.compile(made, "fp16", machine=machine).text


# --- what tiles exchange ---------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["dte", "ddr"])
@pytest.mark.parametrize(
    ("parts", "name"), [(3, "sum"), (1, "sum"), (None, "sum"), (None, "max"), (2, "max")]
)
def test_an_exchange_folds_in_the_order_of_the_members(way: str, parts: int | None, name: str) -> None:
    """Two teams of three; numbers whose sum depends on the order. Two tiles are in no team."""
    size = 24
    data = np.float32(draw(6, (parts or 1) * size, seed=3)) * np.float32(10.0) ** np.arange(6)[:, None]
    source = DdrTensor("a", Format.FP32, (data.size,))
    target = DdrTensor("y", Format.FP32, (6, size))

    def lower(kernel: Kernel) -> None:
        exchange = Exchange(kernel, way, 3, size, 8, parts)
        with tile_grid(kernel, (2, 3)) as grid:
            own = kernel.buffer("own", 4 * (parts or 1) * size)
            number = grid.position[0] * 3 + grid.position[1]
            kernel.emit(
                "rdma.fp32", dst=own, src=source.at(number * ((parts or 1) * size)), n=(parts or 1) * size
            )
            team = grid.team(kernel, 1)
            exchange.exchange(team, own)
            with kernel.if_below(team.member, parts or 3):
                kernel.emit(
                    "wdma.fp32", dst=target.at(number * size), src=exchange.folded(team, name), n=size
                )

    program, _ = phase_program(lower, [source], target, 8)
    got = output_of(program, {"a": data.reshape(-1).astype(np.float32)})
    for tile in range(6):
        team, member = divmod(tile, 3)
        if member >= (parts or 3):
            continue
        first = 0 if parts is None else member * size
        rows = data.astype(np.float32)[3 * team : 3 * team + 3, first : first + size]
        want = rows[0]
        for row in rows[1:]:
            want = want + row if name == "sum" else np.maximum(want, row)
        assert np.array_equal(got[tile], want), (tile, parts)


@pytest.mark.long
@pytest.mark.parametrize(("count", "width"), [(2, 10), (8, 3), (64, 1), (4, 16)])
def test_halves_are_folded(count: int, width: int) -> None:
    data = np.random.default_rng(1).integers(-9, 9, (count, width)).astype(np.float64)
    source, target = DdrTensor("a", Format.FP32, (count * width,)), DdrTensor("y", Format.FP32, (width,))

    def lower(kernel: Kernel) -> None:
        rows, result = kernel.buffer("rows", 4 * count * width), kernel.buffer("result", 4 * width)
        kernel.emit("rdma.fp32", dst=rows, src=source.at(0), n=count * width)
        fold_halves(kernel, "sum", rows, count, width, result)
        kernel.emit("wdma.fp32", dst=target.at(0), src=result, n=width)

    program, _ = phase_program(lower, [source], target, 1)
    got = output_of(program, {"a": data.reshape(-1).astype(np.float32)})
    assert np.array_equal(got.astype(np.float64), data.sum(axis=0))


@pytest.mark.parametrize(("size", "lanes"), [(10, 4), (64 * 4097, 64)])
def test_parts_that_cannot_be_added_up_are_refused(size: int, lanes: int) -> None:
    with pytest.raises(ValueError, match=f"{size} elements in rows of {lanes}"):
        Exchange(Kernel("p0", Target(4, SPM, Format.FP16), SPM), "ddr", 4, size, lanes)


def test_tiles_assemble_once() -> None:
    """No barrier is issued where the tiles have just met."""
    kernel = Kernel("p0", Target(4, SPM, Format.FP16), SPM, synchronized=True)
    kernel.await_earlier_phases()
    lines = len(kernel.out.lines)
    kernel.ensure_synchronized()
    assert len(kernel.out.lines) == lines
    kernel.emit("ct.abs.v.fp32", dst=0, src0=0, n=4)
    kernel.ensure_synchronized()
    assert any("ncc.barrier" in line for line in kernel.out.lines[lines + 1 :])


@pytest.mark.parametrize("step", [2047, 2048, 100_000])
def test_loops_of_long_steps(step: int) -> None:
    target = DdrTensor("y", Format.FP32, (3 * step,))

    def lower(kernel: Kernel) -> None:
        with kernel.loop(3 * step, 0, step) as first:
            zero = kernel.buffer("zero", 4 * step)
            kernel.emit("td.memset.fp32", dst=zero, value=2.0, n=step)
            kernel.emit("wdma.fp32", dst=target.at(first), src=zero, n=step)

    program, _ = phase_program(lower, [], target, 1)
    assert np.array_equal(program.run({})["y"], np.full(3 * step, 2.0, np.float32))
