"""Sharded sequences: right results, without hazards, on every mesh, and unsupported shardings."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest

import compiler.lowering.sharded.schedule as schedule
import emulator
from asm.image import read_image, write_image
from compiler.driver import Program, compile_graph
from compiler.graph import Array, Graph, GraphError
from compiler.passes.groups import borders
from compiler.search.plan import plan_text
from compiler.tools.run import check, random_inputs
from compiler_harness import draw, ints
from planned_cuts import plan_with_cut
from sharded_nets import Net, gated, mlp, normalized_first, normalized_last

NETS: dict[str, Callable[[], Graph]] = {
    "mlp": mlp,
    "normalized first": normalized_first,
    "normalized last": normalized_last,
    "gated": gated,
}


@pytest.fixture(autouse=True)
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if barriers took so long that every sequence is worth it."""
    monkeypatch.setattr(borders, "barrier_cycles", lambda machine: 10**9)


def on_mesh(made: Graph, dtype: str, tiles: int, mesh: tuple[int, int], folder: Path) -> Program:
    """The program in which the only sharded sequence is divided over a mesh, as a plan says."""
    cut = {"tiles": {"rows": mesh[0], "columns": mesh[1]}}
    plan = plan_with_cut(made, dtype, tiles, "sharded", cut, folder)
    return compile_graph(made, dtype, tiles, plan=plan)


def assert_right(made: Graph, program: Program, given: Mapping[str, Array] | None = None) -> None:
    """Close to the reference, without hazards, and the same on any number of threads."""
    inputs = random_inputs(made, {}, 3) | dict(given or {})
    verdicts = check(program, inputs).verdicts.values()
    assert all(verdict.ok for verdict in verdicts)
    loaded = emulator.Program(read_image(write_image(program.image), "prog.bin"), program.machine)
    once = loaded.run(inputs, strict=True)["y"]
    assert loaded.hazards == ()
    assert loaded.run(inputs, threads=2)["y"].tobytes() == once.tobytes()


@pytest.mark.parametrize("name", NETS)
@pytest.mark.parametrize(
    ("dtype", "tiles"), [("fp16", 16), ("bf16", 16), ("fp16", 12), ("fp16", 5), ("bf16", 1)]
)
def test_right_and_without_hazards(name: str, dtype: str, tiles: int) -> None:
    made = NETS[name]()
    program = compile_graph(made, dtype, tiles)
    assert program.report is not None
    assert "sharded" in {phase.tag for phase in program.report.phases}
    assert_right(made, program)


@pytest.mark.long
@pytest.mark.parametrize("mesh", [(4, 4), (8, 2), (2, 4), (2, 2), (16, 1), (1, 4), (4, 1), (1, 1)])
def test_every_mesh(tmp_path: Path, mesh: tuple[int, int]) -> None:
    made = normalized_first()
    assert_right(made, on_mesh(made, "fp16", 16, mesh, tmp_path))


@pytest.mark.long
def test_a_mesh_that_does_not_fill_the_grid(tmp_path: Path) -> None:
    """Three of the four tiles of each row of the chip take part."""
    made = normalized_first(columns=384, heads=12)
    program = on_mesh(made, "fp16", 16, (4, 3), tmp_path)
    assert "tiles=30583" in program.text  # 0x7777
    assert_right(made, program)


@pytest.mark.long
def test_weights_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Products are computed a part of the inner dimension at a time when their weights are many."""
    monkeypatch.setattr(schedule, "_MOST_WEIGHTS", 1 << 14)
    for made in (normalized_first(), normalized_last()):
        program = compile_graph(made, "fp16", 16)
        assert program.text.count("ne.gemm.fp16") > compile_graph(mlp(), "fp16", 16).text.count(
            "ne.gemm.fp16"
        )
        assert_right(made, program)


@pytest.mark.long
def test_many_queries_of_wide_heads(tmp_path: Path) -> None:
    made = normalized_first(rows=128, columns=256, heads=4)
    assert_right(made, on_mesh(made, "fp16", 16, (1, 4), tmp_path))


@pytest.mark.parametrize("dtype", ["fp16", "bf16"])
@pytest.mark.parametrize("mesh", [(4, 4), (2, 4), (16, 1)])
def test_same_bits_as_group_by_group(tmp_path: Path, dtype: str, mesh: tuple[int, int]) -> None:
    """Each sum is computed by one tile in the same order; only its addends are added in another order."""
    made = mlp(bias=False)
    inputs = random_inputs(made, {}, 5)
    results = []
    for program in (
        on_mesh(made, dtype, 16, mesh, tmp_path),
        compile_graph(made, dtype, 16, patterns="none"),
    ):
        loaded = emulator.Program(read_image(write_image(program.image), "prog.bin"), program.machine)
        results.append(loaded.run(inputs)["y"].tobytes())
    assert results[0] == results[1]


@pytest.mark.parametrize(("dtype", "search"), [("fp32", "fast"), ("tf32", "fast"), ("fp16", "off")])
def test_not_sharded(dtype: str, search: str) -> None:
    """The engine takes FP32 in parts; without a search nothing decides which method is faster."""
    report = compile_graph(mlp(), dtype, search=search).report
    assert report is not None
    assert "sharded" not in {phase.tag for phase in report.phases}


@pytest.mark.parametrize("mesh", [(3, 4), (4, 3), (16, 16), (64, 1)])
def test_a_plan_with_another_mesh(tmp_path: Path, mesh: tuple[int, int]) -> None:
    with pytest.raises(GraphError, match=rf"a mesh of {mesh[0]} x {mesh[1]} tiles does not divide"):
        on_mesh(mlp(), "fp16", 16, mesh, tmp_path)


def refused(made: Graph) -> bool:
    """Return True if no part of a graph is sharded."""
    report = compile_graph(made, "fp16", 16).report
    assert report is not None
    return "sharded" not in {phase.tag for phase in report.phases}


def test_columns_that_are_no_whole_planes() -> None:
    assert refused(mlp(columns=100))


def test_products_of_computed_matrices() -> None:
    net = Net(64, 256)
    net.node("MatMul", net.node("MatMul", "x", net.node("Transpose", "x", perm=(0, 2, 1))), "x")
    assert refused(net.graph())


def with_inner_results(rows: int = 64) -> Graph:
    """A block with three outputs; a product that is no part of it needs the first of them too."""
    net = Net(rows, 256)
    mixed = net.attention(net.normalization("x", 256), 4)
    middle = net.node("Add", "x", net.product(mixed, 256, 256))
    inner = net.node("Relu", net.product(net.normalization(middle, 256), 256, 512))
    aside = net.node("ReduceMax", middle, net.constant(ints(1)))
    net.node("Add", middle, net.product(inner, 512, 256))
    return net.graph(middle, inner, aside)


@pytest.mark.parametrize("dtype", ["fp16", "bf16"])
@pytest.mark.parametrize("mesh", [(4, 4), (2, 4), (16, 1), (1, 4)], ids=str)
def test_several_results(tmp_path: Path, dtype: str, mesh: tuple[int, int]) -> None:
    made = with_inner_results()
    program = on_mesh(made, dtype, 16, mesh, tmp_path)
    assert program.report is not None
    (phase,) = (phase for phase in program.report.phases if phase.tag == "sharded")
    assert len(phase.writes) == 3
    assert_right(made, program)


def test_a_plan_of_a_sequence_with_several_results(tmp_path: Path) -> None:
    made, path = with_inner_results(), tmp_path / "plan.json"
    searched = compile_graph(made, "fp16", 16)
    assert searched.report is not None
    path.write_text(plan_text(searched.report.plan))
    assert compile_graph(made, "fp16", 16, plan=path).image == searched.image


def test_a_result_that_a_sequence_waits_for_ends_it() -> None:
    """The second product needs the sum over columns of the first one, which is no part of a sequence."""
    net = Net(64, 256)
    first = net.product("x", 256, 256)
    total = net.node("ReduceSum", first, net.constant(ints(1)))
    net.node("Add", net.product(first, 256, 256), total)
    assert refused(net.graph())


def masked(shape: tuple[int, ...], known: bool = True, rows: int = 64) -> Graph:
    """Two layers of attention with one mask, which hides a third of the keys, then a product."""
    net = Net(rows, 256)
    hidden = np.where(np.random.default_rng(1).random(shape) < 1 / 3, -np.inf, draw(*shape, seed=2))
    hidden[..., :2] = 0.5
    if known:
        mask = net.constant(hidden.astype(np.float32))
    else:
        mask, net.inputs["mask"] = "mask", shape
    first = net.node("Add", "x", net.product(net.attention("x", 4, mask), 256, 256))
    mixed = net.attention(first, 4, mask)
    net.product(net.node("Relu", net.product(mixed, 256, 512)), 512, 256)
    return net.graph()


def attention_tags(program: Program) -> list[str]:
    """The kinds of the phases with attention."""
    assert program.report is not None
    return [
        phase.tag
        for phase in program.report.phases
        if any(member.operator == "FusedAttention" for member in phase.members)
    ]


@pytest.mark.parametrize("known", [True, False], ids=["constant", "input"])
@pytest.mark.parametrize("shape", [(64, 64), (64,), (1, 64), (1, 1, 64, 64), (1, 1, 1, 64)], ids=str)
def test_attention_with_a_mask(shape: tuple[int, ...], known: bool) -> None:
    made = masked(shape, known)
    program = compile_graph(made, "fp16", 16)
    assert attention_tags(program) == ["sharded"]
    assert_right(made, program)


@pytest.mark.parametrize("dtype", ["fp16", "bf16"])
@pytest.mark.parametrize("mesh", [(4, 4), (16, 1), (1, 4), (2, 2)], ids=str)
def test_a_mask_on_every_mesh(tmp_path: Path, dtype: str, mesh: tuple[int, int]) -> None:
    """Tiles of a mesh row have the same rows of the mask, and some heads, one or several."""
    made = masked((1, 1, 64, 64))
    assert_right(made, on_mesh(made, dtype, 16, mesh, tmp_path))


@pytest.mark.parametrize("dtype", ["fp16", "bf16"])
@pytest.mark.parametrize("mesh", [(4, 4), (16, 1), (2, 2)], ids=str)
def test_queries_whose_keys_are_all_hidden(tmp_path: Path, dtype: str, mesh: tuple[int, int]) -> None:
    """Their rows are 0, so the product after it gives its bias; a mask of large numbers hides nothing."""
    net, hidden = Net(64, 256), draw(1, 1, 64, 64, seed=4)
    net.inputs["mask"] = hidden.shape
    hidden[..., [0, 17, 63], :] = -np.inf
    hidden[..., 5, :] = -4000.0
    net.product(net.attention("x", 4, "mask", operator=True), 256, 256)
    made = net.graph()
    program = on_mesh(made, dtype, 16, mesh, tmp_path)
    assert attention_tags(program) == ["sharded"]
    assert_right(made, program, {"mask": hidden})


@pytest.mark.parametrize("of", ["head", "layer"])
def test_masks_that_sharded_attention_does_not_take(of: str) -> None:
    """One for each head, or one that another layer computes: attention runs in a phase of its own."""
    net = Net(64, 256)
    mask = net.constant(draw(1, 4, 64, 64, seed=3)) if of == "head" else net.product("x", 256, 64)
    mixed = net.attention("x", 4, mask)
    net.product(net.node("Relu", net.product(mixed, 256, 512)), 512, 256)
    made = net.graph()
    program = compile_graph(made, "fp16", 16)
    assert attention_tags(program) == ["single"]
    assert_right(made, program)


def commands(program: Program, pattern: str) -> int:
    """Count the commands of the text that match."""
    return len(re.findall(rf"^ +{pattern}", program.text, re.MULTILINE))


def normalized_product(scale: float = 1.0, residual: bool = False) -> Graph:
    """A normalization and the product that reads it, which may be added to the normalized rows."""
    net = Net(64, 256)
    rows = net.node(
        "LayerNormalization", "x", *(net.constant(scale + draw(256, seed=seed)) for seed in (3, 4)), axis=-1
    )
    product = net.product(rows, 256, 256)
    net.node("Add", product, rows) if residual else net.node("Relu", product)
    return net.graph()


@pytest.mark.parametrize("dtype", ["fp16", "bf16"])
def test_scale_and_shift_are_parts_of_products(dtype: str) -> None:
    """No command multiplies or shifts rows by columns, and results are as close to the reference as other
    results."""
    made = normalized_product()
    program = compile_graph(made, dtype, 16)
    assert commands(program, r"ct\.(mul|add)\.vuv_loop") == 0
    assert_right(made, program)


@pytest.mark.parametrize(
    "made",
    [normalized_product(residual=True), normalized_product(scale=3e6)],
    ids=["others read the rows", "weights that FP16 cannot hold"],
)
def test_scale_and_shift_that_stay(made: Graph) -> None:
    assert commands(compile_graph(made, "fp16", 16), r"ct\.mul\.vuv_loop") == 1


def test_biases_come_by_one_command() -> None:
    """The same holds for the bias of a product whose sums begin with a residual, to which a product adds
    it."""
    made = normalized_first()
    program = compile_graph(made, "fp16", 16)
    assert commands(program, r"rdma\.fp32 .*bias") == 1
    assert commands(program, r"ct\.add\.vuv_loop") == 0
    assert_right(made, program)


def tied(columns: int = 256, times: int = 6) -> Graph:
    """The same weights in every layer; between the layers a function that can be told from a factor."""
    net, value = Net(64, columns), "x"
    weights = net.constant(draw(columns, columns, scale=columns**-0.5))
    for _ in range(times):
        value = net.node("Tanh", net.node("MatMul", value, weights))
    return net.graph()


@pytest.mark.parametrize("dtype", ["fp16", "bf16"])
@pytest.mark.parametrize("mesh", [(4, 4), (1, 4), (16, 1), (2, 2)], ids=str)
def test_weights_that_several_products_use(tmp_path: Path, dtype: str, mesh: tuple[int, int]) -> None:
    """They are loaded once: the program has no second copy of them, and no command that loads one."""
    made = tied()
    program = on_mesh(made, dtype, 16, mesh, tmp_path)
    assert_right(made, program)
    once = on_mesh(tied(times=2), dtype, 16, mesh, tmp_path)
    assert commands(program, r"rdma\.") == commands(once, r"rdma\.")


def test_weights_that_do_not_stay() -> None:
    """Four matrices of 2 MiB, each used twice: what has no room is loaded again."""
    net, value = Net(64, 1024), "x"
    weights = [net.constant(draw(1024, 1024, seed=seed, scale=1 / 32)) for seed in range(4)]
    for each in (*weights, *weights):
        value = net.node("Tanh", net.node("MatMul", value, each))
    made = net.graph()
    program = compile_graph(made, "fp16", 4)
    assert_right(made, program)
