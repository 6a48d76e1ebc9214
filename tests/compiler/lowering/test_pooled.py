"""A convolution and the global pool after it in one phase: the same bytes, and cases that stay separate."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import helper
from xdsl.dialects.builtin import ModuleOp

import emulator
from asm.image import read_image, write_image
from compiler.driver import Program, compile_graph
from compiler.graph import Array, Graph, GraphError
from compiler.passes.base import operations
from compiler.passes.patterns import PatternError, load_patterns
from compiler.search.plan import plan_text
from compiler.tools.run import check, execute, random_inputs
from compiler_harness import NodeSpec, draw, graph, ints
from onnx_models import imported, model
from onnx_oracle import onnxruntime
from planned_cuts import plan_with_cut, without_sliced
from quantised_nets import pooled_bytes

node = helper.make_node

POOL: NodeSpec = ("GlobalAveragePool", ["c"], ["y"], {})
POOL_TO_P: NodeSpec = ("GlobalAveragePool", ["c"], ["p"], {})


def conv(image: tuple[int, ...], weights: tuple[int, ...], *after: NodeSpec, **attrs: object) -> Graph:
    """A convolution with bias and a ReLU, and a last operator, by default the pool of all positions."""
    nodes: list[NodeSpec] = [("Conv", ["x", "w", "b"], ["a"], attrs), ("Relu", ["a"], ["c"], {})]
    constants = {"w": draw(*weights, scale=0.2), "b": draw(weights[0], seed=2)}
    return graph([*nodes, *(after or (POOL,))], {"x": image}, constants)


def tags(program: Program) -> list[str]:
    assert program.report is not None
    return [phase.tag for phase in program.report.phases]


def results(program: Program, inputs: dict[str, Array]) -> dict[str, bytes]:
    """The outputs of a run without hazards."""
    loaded = emulator.Program(read_image(write_image(program.image), "prog.bin"), program.machine)
    found = loaded.run(inputs, strict=True)
    assert loaded.hazards == ()
    return {name: value.tobytes() for name, value in found.items()}


def assert_pooled(made: Graph, dtype: str = "fp16", tiles: int = 16) -> Program:
    """One phase has both; it is right, and gives the bytes of separate phases."""
    program = compile_graph(made, dtype, tiles, patterns=without_sliced())
    apart = compile_graph(made, dtype, tiles, residency="off")
    assert "pooled" in tags(program)
    assert len(tags(program)) == len(tags(apart)) - 1
    inputs = random_inputs(made, {}, 3)
    verdicts = check(program, inputs).verdicts.values()
    assert all(verdict.ok for verdict in verdicts), [verdict.text for verdict in verdicts]
    assert results(program, inputs) == results(apart, inputs)
    return program


CASES = {
    "positions": conv((1, 70, 13, 13), (200, 70, 1, 1)),
    "windows": conv((1, 24, 9, 7), (72, 24, 3, 3), pads=(1, 1, 1, 1)),
    "strides": conv((1, 64, 11, 15), (128, 64, 3, 3), strides=(2, 2)),
    "images": conv((3, 40, 6, 5), (40, 40, 1, 1)),
    "depthwise": conv((1, 96, 8, 9), (96, 1, 3, 3), group=96),
    "one axis": conv((2, 64, 17), (64, 64, 3)),
    "one position": conv((1, 64, 3, 3), (130, 64, 3, 3)),
}


@pytest.mark.parametrize("dtype", ["fp16", "fp32"])
@pytest.mark.parametrize("name", CASES)
def test_same_bytes_in_one_phase(name: str, dtype: str) -> None:
    assert_pooled(CASES[name], dtype)


@pytest.mark.long
@pytest.mark.parametrize(("dtype", "tiles"), [("bf16", 5), ("tf32", 16), ("fp16", 1)])
def test_other_formats_and_numbers_of_tiles(dtype: str, tiles: int) -> None:
    assert_pooled(CASES["windows"], dtype, tiles)


@pytest.mark.long
@pytest.mark.parametrize("step", ["Relu", "Sigmoid"])
def test_steps_behind_the_pool(step: str) -> None:
    """One operator commutes with the rounding of the mean; before the other one the mean is in FP32."""
    after: list[NodeSpec] = [("GlobalAveragePool", ["c"], ["p"], {}), (step, ["p"], ["y"], {})]
    assert_pooled(conv((1, 64, 7, 9), (72, 64, 1, 1), *after))


def test_a_residual_and_an_inexact_step_before_the_pool() -> None:
    nodes: list[NodeSpec] = [
        ("Conv", ["x", "w"], ["a"], {}),
        ("Add", ["a", "x"], ["s"], {}),
        ("HardSwish", ["s"], ["c"], {}),
        POOL,
    ]
    assert_pooled(graph(nodes, {"x": (1, 128, 7, 7)}, {"w": draw(128, 128, 1, 1, scale=0.1)}))


@pytest.mark.parametrize("dtype", ["fp16", "fp32"])
@pytest.mark.parametrize("last", ["GlobalMaxPool", "ReduceMax", "Sigmoid"])
def test_the_largest_of_all_positions(last: str, dtype: str) -> None:
    """Values of both signs, in narrow planes, and with an epilogue in FP32."""
    pool: NodeSpec = (last, ["a"], ["y"], {})
    if last == "ReduceMax":
        pool = (last, ["a", "axes"], ["y"], {"keepdims": 0})
    after = [("GlobalMaxPool", ["a"], ["p"], {}), (last, ["p"], ["y"], {})] if last == "Sigmoid" else [pool]
    constants = {"w": draw(72, 24, 3, 3), "axes": ints(2, 3)}
    nodes: list[NodeSpec] = [("Conv", ["x", "w"], ["a"], {}), *after]
    used = {name: array for name, array in constants.items() if any(name in node[1] for node in nodes)}
    assert_pooled(graph(nodes, {"x": (2, 24, 9, 7)}, used), dtype)


def test_exact_means() -> None:
    """Sums of small integers over 64 positions have no rounding at all."""
    made = conv((1, 32, 8, 8), (72, 32, 1, 1))
    random = np.random.default_rng(4)
    weights, bias = random.integers(-1, 2, (72, 32, 1, 1)), random.integers(-3, 4, 72)
    made.constants.update(w=weights.astype(np.float32), b=bias.astype(np.float32))
    image = random.integers(-2, 3, (1, 32, 8, 8))
    sums = np.einsum("oc,nchw->nohw", weights[:, :, 0, 0], image) + bias[:, None, None]
    program = compile_graph(made, "fp16")
    assert "pooled" in tags(program)
    found = execute(program, {"x": image.astype(np.float32)})[0]["y"]
    exact = np.maximum(sums, 0).sum((2, 3), keepdims=True) / 64
    np.testing.assert_array_equal(found, exact.astype(np.float16))


def tail(pool: str, folder: Path) -> tuple[object, Graph]:
    """The end of a network: a convolution to classes, the mean of all positions, probabilities."""
    pooling = {
        "pool": [node("GlobalAveragePool", ["c"], ["p"])],
        "mean": [node("ReduceMean", ["c", "axes"], ["p"], keepdims=1)],
        "flat mean": [
            node("ReduceMean", ["c", "axes"], ["q"], keepdims=0),
            node("Reshape", ["q", "shape"], ["p"]),
        ],
    }
    nodes = [
        node("Conv", ["x", "w", "b"], ["a"]),
        node("Relu", ["a"], ["c"]),
        *pooling[pool],
        node("Flatten", ["p"], ["f"]),
        node("Softmax", ["f"], ["s"], axis=1),
        node("Reshape", ["s", "shape"], ["y"]),
    ]
    constants = {"w": draw(250, 128, 1, 1, scale=0.2), "b": draw(250, seed=2)}
    constants |= {"axes": ints(3, -2), "shape": ints(1, 250, 1, 1)}
    made = model(nodes, {"x": (1, 128, 13, 13)}, constants=constants)
    return made, imported(made, folder)


@pytest.mark.parametrize("pool", ["pool", "mean", "flat mean"])
def test_the_tail_of_a_network(pool: str, tmp_path: Path) -> None:
    """Two phases: neither the pool, nor the cast of the result, nor a change of shape is a separate one."""
    made, read = tail(pool, tmp_path)
    program, apart = compile_graph(read, "fp16"), compile_graph(read, "fp16", residency="off")
    assert tags(program)[1:] == ["pooled", "single"]
    assert len(tags(apart)) == len(tags(program)) + 1
    assert waits(read, "on") == waits(read, "off") - 1
    image = draw(1, 128, 13, 13, seed=9)
    session = onnxruntime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    found = execute(program, {"x": image})[0]["y"]
    np.testing.assert_allclose(found, session.run(["y"], {"x": image})[0], rtol=1e-2, atol=1e-6)


def waits(made: Graph, residency: str) -> int:
    """Phases that begin with a barrier of all tiles."""
    marked: list[bool] = []

    def look(name: str, module: ModuleOp) -> None:
        if name == "barrier_opt":
            marked.extend(operation.barrier is not None for operation in operations(module))

    compile_graph(made, "fp16", residency=residency, after_pass=look)
    return sum(marked)


# --- what stays apart, plans, refusals --------------------------------------------------------------------

APART = {
    "another user": conv((1, 64, 7, 7), (64, 64, 1, 1), POOL_TO_P, ("Mul", ["c", "p"], ["y"], {})),
    "many positions": conv((1, 8, 80, 60), (16, 8, 1, 1)),
    "groups of channels": conv((1, 120, 9, 9), (120, 60, 3, 3), group=2),
}


@pytest.mark.parametrize("name", APART)
def test_what_stays_apart(name: str) -> None:
    made = APART[name]
    program = compile_graph(made, "fp16")
    assert "pooled" not in tags(program)
    assert all(verdict.ok for verdict in check(program, random_inputs(made, {}, 3)).verdicts.values())


def test_two_pools_of_the_same_image_stay_apart() -> None:
    made = conv((1, 64, 7, 7), (64, 64, 1, 1), POOL_TO_P, ("GlobalAveragePool", ["p"], ["y"], {}))
    assert "pooled" in tags(compile_graph(made, "fp16")), "the second pool is of one position"


def test_large_images_are_pooled_where_all_tiles_can_work() -> None:
    """With all positions in a tile, one tile alone would compute 16 channels of a large image."""
    made = conv((1, 64, 60, 60), (16, 64, 3, 3), pads=(1, 1, 1, 1))
    assert "pooled" not in tags(compile_graph(made, "fp16"))


def test_a_plan_makes_the_same_program(tmp_path: Path) -> None:
    program = compile_graph(CASES["windows"], "fp16")
    assert program.report is not None
    (tmp_path / "plan.json").write_text(plan_text(program.report.plan))
    planned = compile_graph(CASES["windows"], "fp16", plan=tmp_path / "plan.json")
    assert "pooled" in tags(planned)
    assert planned.text == program.text


@pytest.mark.parametrize(
    ("tiles", "sizes"), [({"rows": 2}, {"rows": 5}), ({}, {"rows": 4}), ({}, {"rows": 9, "columns": 3})]
)
def test_a_plan_that_divides_positions(tiles: dict[str, int], sizes: dict[str, int], tmp_path: Path) -> None:
    cut = {
        "tiles": {"images": 1, "rows": 1, "maps": 2, **tiles},
        "sizes": {"maps": 64, "channels": 24, **sizes},
    }
    plan = plan_with_cut(CASES["windows"], "fp16", 16, "pooled", cut, tmp_path)
    with pytest.raises(GraphError, match=r"node 'n0' \(Pooled\) cannot be used: .*slices of this layer have"):
        compile_graph(CASES["windows"], "fp16", plan=plan)


def test_patterns_without_the_table_pool_nothing(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text('[[pattern]]\ntag = "t"\nsequence = ["Conv", "Relu"]\n')
    program = compile_graph(CASES["positions"], "fp16", patterns=str(tmp_path / "mine.toml"))
    assert "pooled" not in tags(program)


def test_a_table_with_another_operator(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(
        '[[pattern]]\ntag = "t"\nsequence = ["Conv", "Relu"]\n'
        '[pooled]\ntag = "p"\noperators = "MaxPool"\nmost = 2\n'
    )
    with pytest.raises(
        PatternError, match=r"some of Conv\|GlobalAveragePool\|Int8Conv\|LargestPosition; found 'MaxPool'"
    ):
        load_patterns(str(path))


@pytest.mark.parametrize(("seed", "dtype"), [(1, "uint8"), (2, "int8")])
def test_a_convolution_of_bytes_whose_result_stays_a_float(seed: int, dtype: str, tmp_path: Path) -> None:
    """The Relu and the pool are in its phase, and give the bytes of separate phases."""
    made, shape = pooled_bytes(seed, dtype, 64, 256, 14)
    feeds = {"x": np.random.default_rng(seed).standard_normal(shape).astype(np.float32)}
    source = imported(made, tmp_path)
    program = compile_graph(source, "fp16", 16)
    assert program.report is not None
    (pooled,) = [phase for phase in program.report.phases if phase.tag == "pooled"]
    operators = [member.operator for member in pooled.members]
    assert operators == ["Int8Conv", "Relu", "GlobalAveragePool"]
    assert check(program, feeds).ok
    apart = compile_graph(source, "fp16", 16, residency="off")
    assert list(results(program, feeds).values()) == list(results(apart, feeds).values())
    session = onnxruntime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    (got,), want = execute(program, feeds)[0].values(), session.run(None, feeds)[0]
    np.testing.assert_allclose(got, want, rtol=0.01, atol=0.002)
