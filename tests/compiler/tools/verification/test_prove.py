"""Programs in prime fields: right ones are proved, and every kind of mistake is found and named."""

from __future__ import annotations

import itertools
import json
import re
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import emulator
from compiler.cli import main
from compiler.driver import Program, compile_graph
from compiler.evaluation.field.twin import twin_of
from compiler.graph import Graph, GraphError
from compiler.tools.verification.findings import Proof, lines
from compiler.tools.verification.prove import prove
from compiler_harness import draw, graph, one
from example_modules import example_modules
from float_nets import mlp, small_cnn
from mutant_ends import End
from mutant_nets import NETWORKS, rows
from mutant_table import judged
from network_draws import drawn as drawn_network
from onnx_models import imported
from paths import ROOT
from program_mutants import Mutant, left_out
from sharded_nets import Net
from tx8isa.numbers.formats import Format

WEIGHTS = draw(24, 16)


def proof(made: Graph, dtype: str = "fp16", program: Program | None = None) -> Proof:
    return prove(program or compile_graph(made, dtype))


@pytest.mark.parametrize("dtype", ["fp16", "bf16", "fp32"])
@pytest.mark.parametrize("made", [mlp(), small_cnn()], ids=["mlp", "cnn"])
def test_networks_are_proved(made: Graph, dtype: str) -> None:
    found = proof(made, dtype)
    assert found.holds, lines(found)
    assert found.proved == {made.outputs[0].name: made.outputs[0].size}
    assert not found.reserves


@pytest.mark.parametrize(
    ("op", "shapes", "attrs"),
    [
        ("Conv", [(1, 3, 9, 11), (5, 3, 3, 3)], {"pads": (1, 1, 1, 1), "strides": (2, 2)}),
        ("MaxPool", [(1, 3, 9, 11)], {"kernel_shape": (3, 3), "pads": (1, 0, 1, 0), "ceil_mode": 1}),
        ("AveragePool", [(1, 3, 9, 11)], {"kernel_shape": (3, 2), "strides": (2, 1)}),
        ("AveragePool", [(1, 3, 9, 11)], {"kernel_shape": (5, 3), "pads": (2, 1, 2, 1)}),
        ("MatMul", [(3, 70, 33), (33, 65)], {}),
        ("Gemm", [(9, 33), (17, 33), (17,)], {"transB": 1, "alpha": 0.5}),
        ("Softmax", [(5, 130)], {"axis": -1}),
        ("Transpose", [(3, 70, 5)], {"perm": (2, 0, 1)}),
        ("Concat", [(3, 7), (3, 9)], {"axis": 1}),
        ("Gelu", [(3, 70)], {}),
        ("Tanh", [(3, 70)], {}),
        ("Max", [(3, 70), (1, 70)], {}),
        ("Div", [(3, 70), (3, 1)], {}),
    ],
)
def test_operators_are_proved(op: str, shapes: list[tuple[int, ...]], attrs: dict[str, int]) -> None:
    found = proof(one(op, shapes, **attrs))
    assert found.holds, lines(found)


@pytest.mark.parametrize(("rows", "columns", "heads", "layers"), [(32, 192, 6, 2), (16, 32, 2, 1)])
def test_transformers_are_proved(rows: int, columns: int, heads: int, layers: int, tmp_path: Path) -> None:
    """Scales of normalizations and of attention become factors of weights, and exponentials follow others."""
    with example_modules(ROOT / "examples" / "networks", ("transformers",)) as examples:
        made = examples.transformers
        model = made.transformer(made.Size(rows, columns, heads, layers))
    found = proof(imported(model, tmp_path))
    assert found.holds, lines(found)
    assert not found.reserves


@pytest.mark.parametrize(
    ("columns", "dtype", "shifted"), [(96, "fp16", True), (100, "bf16", False), (384, "fp32", True)]
)
def test_scales_of_rows_are_proved_in_products(columns: int, dtype: str, shifted: bool) -> None:
    """The root of the columns becomes a part of the scale, and both of weights."""
    op, names = ("LayerNormalization", ["s", "h"]) if shifted else ("RMSNormalization", ["s"])
    nodes = [(op, ["x", *names], ["n"], {"axis": -1}), ("MatMul", ["n", "w"], ["y"], {})]
    constants = {"s": draw(columns), "h": draw(columns), "w": draw(columns, 64)}
    used = {name: constants[name] for name in (*names, "w")}
    found = proof(graph(nodes, {"x": (40, columns)}, used, opset=23), dtype)
    assert found.holds, lines(found)


def test_scales_of_rows_may_be_computed() -> None:
    """The root of the columns is then a number in an instruction."""
    nodes = [("Relu", ["t"], ["s"], {}), ("LayerNormalization", ["x", "s"], ["y"], {"axis": -1})]
    found = proof(graph(nodes, {"x": (40, 96), "t": (96,)}))
    assert found.holds, lines(found)


def test_the_result_does_not_depend_on_the_order_of_sums() -> None:
    """A program of one tile and one of sixteen add up in different orders."""
    made = one("MatMul", [(40, 600)], {"w": draw(600, 50)})
    for tiles in (1, 16):
        found = prove(compile_graph(made, "fp16", tiles))
        assert found.holds, lines(found)


def test_no_constant_of_the_twin_becomes_zero() -> None:
    """A zero with a sign is stored in another way, so small numbers must not become zero."""
    made = one("MatMul", [(4, 3)], {"w": np.array([[1.0, -1e-6], [-0.25, 3e-5], [0.0, 0.5]], np.float32)})
    short = twin_of(made, Format.FP16).constants["w"]
    assert np.array_equal(np.sign(short), np.sign(made.constants["w"]))


def test_constants_of_the_twin_are_equal_where_the_given_ones_are() -> None:
    """Programs store equal constants once, and scales near 1 all become 1."""
    given = {name: np.float32([1, 1 + at / 64, 1, 1]) for at, name in enumerate("abcde")} | {
        "f": np.ones(4, "f4")
    }
    nodes = [("RMSNormalization", [f"x{name}", name], [f"y{name}"], {"axis": -1}) for name in given]
    made = graph(
        nodes, {f"x{name}": (2, 4) for name in given}, given, [f"y{name}" for name in given], opset=23
    )
    short = twin_of(made, Format.FP16).constants
    for first, second in itertools.combinations(given, 2):
        assert np.array_equal(short[first], short[second]) == np.array_equal(given[first], given[second])
    assert all((np.log2(each) % 1 == 0).all() for each in short.values())


@pytest.mark.parametrize(("scale", "short"), [(0.3, 0.25), (0.9, 0.5), (1.1, 2.0), (1.0, 1.0)])
def test_a_factor_of_the_twin_is_a_power_of_two_and_1_only_for_1(scale: float, short: float) -> None:
    made = one("Relu", [(4,)])
    attention = replace(made.nodes[0], op="FusedAttention", attrs={"scale": scale})
    assert twin_of(replace(made, nodes=(attention,)), Format.FP16).nodes[0].attrs["scale"] == short


def test_the_twin_has_the_decisions_of_the_program(tmp_path: Path) -> None:
    """The same holds if its attention has another scale, so that nothing is searched."""
    with example_modules(ROOT / "examples" / "networks", ("transformers",)) as examples:
        made = examples.transformers
        program = compile_graph(imported(made.transformer(made.Size(32, 192, 6, 2)), tmp_path), "fp16")
    assert program.again is not None
    twin = program.again(twin=partial(twin_of, compute=Format.FP16))
    assert program.report is not None
    assert twin.report is not None
    assert twin.report.plan == program.report.plan
    assert twin.constants != program.constants


def test_every_output_is_compared() -> None:
    made = graph(
        [("Relu", ["x"], ["r"], {}), ("MatMul", ["r", "w"], ["m"], {}), ("Neg", ["m"], ["n"], {})],
        {"x": (8, 24)},
        {"w": WEIGHTS},
        outputs=("n", "r", "m"),
    )
    assert proof(made).proved == {"n": 128, "r": 192, "m": 128}


@pytest.mark.parametrize("seed", [0, 6, *(pytest.param(at, marks=pytest.mark.long) for at in range(7, 200))])
def test_random_networks_are_never_wrong(seed: int, tmp_path: Path) -> None:
    found = proof(imported(drawn_network(seed)[1], tmp_path))
    assert not found.differences, lines(found)


@pytest.mark.parametrize("bound", ["b", "s"])
def test_selections_and_comparisons_are_followed(bound: str) -> None:
    """The same holds if an instruction of FP32 contains a number that was rounded to FP16."""
    nodes = [("Greater", ["a", bound], ["c"], {}), ("Where", ["c", "a", "b"], ["y"], {})]
    found = proof(graph(nodes, {"a": (4, 64), "b": (4, 64)}, {"s": np.array(33 / 64, "f4")}))
    assert found.holds, lines(found)
    assert not found.reserves


def test_constants_of_one_element_are_held_or_stored() -> None:
    """An instruction contains a factor, which represents a fraction; memory has the parameters of a
    channel."""
    given = {"f": 61 / 128, "s": 33 / 64, "h": 0.75, "m": 21 / 64, "v": 43 / 32}
    nodes = [
        ("Mul", ["x", "f"], ["p"], {}),
        ("BatchNormalization", ["p", "s", "h", "m", "v"], ["y"], {"epsilon": 1e-5}),
    ]
    constants = {name: np.array([value], np.float32) for name, value in given.items()}
    found = proof(graph(nodes, {"x": (2, 1, 4, 5)}, constants))
    assert found.holds, lines(found)


@pytest.mark.parametrize(("alpha", "beta"), [(61 / 128, -0.3), (-3.3, 33 / 64), (1.0, 0.0)])
def test_factors_of_products_are_proved(alpha: float, beta: float) -> None:
    """The program multiplies one factor into the bias in memory, and instructions contain the other."""
    nodes = [("Gemm", ["x", "w", "b"], ["y"], {"alpha": alpha, "beta": beta})]
    found = proof(graph(nodes, {"x": (5, 24)}, {"w": WEIGHTS, "b": draw(16)}))
    assert found.holds, lines(found)


@pytest.mark.parametrize(
    "nodes",
    [
        ["Sigmoid"],
        ["Add", "Floor"],
        ["Max"],
        ["Add", "Reciprocal", "Sqrt"],
        ["ThresholdedRelu"],
        ["Shrink"],
        ["Less"],
    ],
)
def test_functions_of_padding_are_proved(nodes: list[str]) -> None:
    """Whole vectors of zeros have no element, and a sigmoid of them has one."""
    made, last = [("Pad", ["x", "p"], ["v"], {})], "v"
    for at, op in enumerate(nodes):
        made.append((op, [last, "s"] if op in ("Add", "Max", "Less") else [last], [f"v{at}"], {}))
        last = f"v{at}"
    if nodes[-1] == "Less":
        made.append(("Where", [last, "x0", "v"], ["y"], {}))
        last = "y"
    constants = {"p": np.array([3, 0, 0, 0]), "s": np.array(61 / 128, "f4"), "x0": np.array(0.5, "f4")}
    used = {name: value for name, value in constants.items() if any(name in node[1] for node in made)}
    found = proof(graph(made, {"x": (2, 400)}, used, outputs=(last,)))
    assert found.holds, lines(found)


PLACES = {
    "Gather": np.array([2, 0, 3]),
    "GatherElements": np.array([[0, 5], [2, 1]]),
    "GatherND": np.array([[1, 4]]),
}
"""Indices of rows, or of elements, by operator."""


@pytest.mark.parametrize("op", list(PLACES))
def test_numbers_that_the_core_moves_are_followed(op: str) -> None:
    nodes = [("Relu", ["x"], ["r"], {}), (op, ["r", "i"], ["g"], {}), ("Neg", ["g"], ["y"], {})]
    found = proof(graph(nodes, {"x": (6, 7)}, {"i": PLACES[op]}))
    assert found.holds, lines(found)
    assert not found.reserves


def test_sums_of_the_core_are_open() -> None:
    nodes = [("ScatterElements", ["x", "i", "u"], ["y"], {"reduction": "add"})]
    found = proof(graph(nodes, {"x": (6, 7), "u": (2, 2)}, {"i": PLACES["GatherElements"]}))
    assert not found.differences, lines(found)
    assert found.unknown
    assert "but for stores of the kernel core: computed from elements, 4 times" in lines(found)


# --- mistakes ---------------------------------------------------------------------------------------------


def proof_of(mutant: Mutant, program: Program) -> Proof:
    """The proof of a program with a mistake, which its twin has too."""
    return prove(mutant.of(program))


_SHIFTED = re.compile(r"ct\.mul\.vs\.\w+ .*src1=-1\.0")
"""The negated maximum of a softmax, which is the same in exact numbers whatever it subtracts."""


@pytest.mark.parametrize("name", ["rows", "cnn", "bytes"])
def test_mistakes_in_programs_are_found(name: str) -> None:
    found = list(judged(name, 16))
    assert sum(each.end is End.PROOF for each in found) > 4
    assert not [each for each in found if each.end is End.RUN]


@pytest.mark.long
@pytest.mark.parametrize("name", NETWORKS)
def test_every_mistake_that_changes_results_is_found(name: str) -> None:
    """The mutants of the table in docs/proving.md, and as many others."""
    missed = [each.line for each in judged(name, 200) if each.end is End.RUN]
    assert not [line for line in missed if not _SHIFTED.search(line)]


def test_the_node_whose_result_is_wrong_is_named() -> None:
    made = rows()
    program = compile_graph(made, "fp16")
    number = next(at for at, line in enumerate(program.text.splitlines(), 1) if "relu" in line)
    found = proof_of(Mutant("", number, left_out), program)
    assert not found.holds
    assert found.differences[0].output == "y"
    assert found.blamed is not None
    assert found.blamed.name == "n3"
    by = r"y\[0, \d+\], which is a\[0, \d+\], computed by (ct|ne)\.\S+ of tile 0 \(prog\.s:\d+, node 'n\d'\)$"
    assert re.search(by, lines(found)[0]), lines(found)
    wanted = "node 'n3' (Relu): no instruction computes its result, though all its operands are there"
    assert lines(found)[-1] == wanted


def test_a_softmax_without_its_exponential_is_wrong() -> None:
    program = compile_graph(one("Softmax", [(5, 130)], axis=-1), "fp16")
    number = next(at for at, line in enumerate(program.text.splitlines(), 1) if "ct.exp" in line)
    found = proof_of(Mutant("", number, left_out), program)
    assert found.differences


@pytest.mark.parametrize("moved", [False, True])
def test_a_wrong_store_of_the_core_is_found(moved: bool) -> None:
    """It is omitted, or goes to the next place."""
    made = graph([("Gather", ["x", "i"], ["y"], {})], {"x": (6, 1)}, {"i": PLACES["Gather"]})
    program = compile_graph(made, "fp16")
    text = program.text.splitlines()
    number = next(at for at, line in enumerate(text, 1) if " sh " in line)
    change = partial(re.sub, r"\b0\((\w+)\)", r"2(\1)") if moved else left_out
    assert change(text[number - 1]) != text[number - 1]
    assert proof_of(Mutant("", number, change), program).differences


def test_what_a_fault_of_the_program_says_is_raised() -> None:
    made = rows()
    program = compile_graph(made, "fp16")
    number = next(at for at, line in enumerate(program.text.splitlines(), 1) if "wdma" in line)
    beyond = Mutant("", number, lambda line: re.sub(r"dst=([^,]+)", r"dst=\1+0x7fffffff", line))
    with pytest.raises((emulator.Fault, GraphError)):
        proof_of(beyond, program)


@pytest.mark.parametrize("hidden", [-1e4, -3e4, -9999.0, -np.inf])
def test_numbers_of_a_mask_that_hide_keys(hidden: float) -> None:
    """Programs leave out products with keys that a causal mask hides, so the number is not added."""
    net = Net(64, 128)
    mask = np.where(np.tri(64, dtype=bool), 0.0, hidden).astype(np.float32)
    net.product(net.attention("x", 2, net.constant(mask)), 128, 128)
    found = proof(net.graph())
    assert found.holds, lines(found)


def test_a_large_number_of_a_bias_stays() -> None:
    """An infinity would hide all that is added to it."""
    bias = draw(16)
    bias[3] = -20000.0
    made = graph([("Add", ["x", "b"], ["y"], {})], {"x": (8, 16)}, {"b": bias})
    np.testing.assert_array_equal(twin_of(made, Format.FP16).constants["b"], bias)


# --- what is not proved -----------------------------------------------------------------------------------


def best(largest: int = 1) -> Program:
    nodes = [("TopK", ["x", "k"], ["best", "places"], {"largest": largest}), ("Relu", ["x"], ["r"], {})]
    made = graph(nodes, {"x": (4, 6)}, {"k": np.array([2], np.int64)}, outputs=("best", "r"))
    return compile_graph(made, "fp16")


def test_numbers_decide_about_integers_that_are_found_in_floats() -> None:
    found = prove(best())
    assert found.holds and found.proved == {"best": 8, "r": 24}
    assert any("(TopIndices): finds integers" in what for what in found.reserves)


def test_outputs_that_follow_from_other_integers_are_open() -> None:
    """The image finds the places of the least numbers."""
    found = prove(best(), image=best(largest=0).image)
    assert not found.differences and not found.holds
    assert found.proved == {"r": 24} and found.unknown.keys() == {"best"}


def test_a_choice_by_what_numbers_have_found_is_proved() -> None:
    """The gate of experts takes the largest shares, whose places are found by numbers."""
    nodes = [
        ("TopK", ["x", "k"], ["best", "places"], {}),
        ("ReduceMin", ["best"], ["least"], {"keepdims": 1}),
        ("Less", ["x", "least"], ["c"], {}),
        ("Where", ["c", "zero", "x"], ["y"], {}),
    ]
    constants = {"k": np.array([2], np.int64), "zero": np.array(0, np.float32)}
    found = proof(graph(nodes, {"x": (4, 6)}, constants))
    assert found.holds, lines(found)


def test_other_code_is_not_proved() -> None:
    made = rows()
    program, other = compile_graph(made, "fp16"), compile_graph(made, "fp16", 4)
    found = prove(replace(program, again=other.again))
    assert not found.holds
    assert lines(found)[-1] == "open: with short constants the program has other instructions"


def test_the_command_proves(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "m.json"
    path.write_text(json.dumps(TINY))
    assert main([str(path), "-q", "--prove", "-o", str(tmp_path)]) == 0
    assert capsys.readouterr().out == "proved: y, 12 elements\n"


TINY = {
    "name": "tiny",
    "opset": 20,
    "inputs": [{"name": "x", "dtype": "float32", "shape": [3, 4]}],
    "outputs": ["y"],
    "nodes": [{"op": "Relu", "name": "relu", "inputs": ["x"], "outputs": ["y"]}],
}
"""A graph in a file."""
