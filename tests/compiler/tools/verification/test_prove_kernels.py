"""Kernels of Triton, and assembly by hand, in prime fields: right ones are proved, wrong ones are found."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tx8
from compiler.cli import main
from compiler.tools.verification.findings import lines
from compiler.tools.verification.images import prove_image
from kernel_graphs import CASES, EXAMPLES, FUNCTIONS, OPERATORS, case_of, graph_of, proof_of
from paths import ROOT

_FIND = ("topk",)
"""Kernels whose core finds places."""
_SOME = {
    **{"choose": "fp16", "layer_norm": "bf16", "matmul_small": "fp16", "attention_causal": "fp32"},
    **{"clamp": "bf16", "pow": "fp32", "mv": "fp16", "fill": "fp32", "rotary": "fp16", "reduce_axes": "bf16"},
}
"""Kernels of all kinds: masks of two sides, statistics, products, an online softmax, numbers from data."""


@pytest.mark.parametrize(("name", "fmt"), _SOME.items())
def test_kernels_are_proved(name: str, fmt: str) -> None:
    found = proof_of(name, fmt)
    assert found.holds, lines(found)
    assert found.proved == {each.name: each.size for each in _graph(name, fmt).outputs}
    assert not found.reserves


@pytest.mark.long
@pytest.mark.parametrize(("name", "fmt"), [each for each in CASES if each[0] not in _FIND])
def test_all_kernels_with_a_graph_are_proved(name: str, fmt: str) -> None:
    found = proof_of(name, fmt)
    assert found.holds and not found.reserves, lines(found)


@pytest.mark.parametrize("fmt", ["fp16", pytest.param("bf16", marks=pytest.mark.long)])
def test_kernels_that_find_places_are_proved_but_for_these(fmt: str) -> None:
    """Real numbers decide relations and places; the elements that move there are followed."""
    found = proof_of("topk", fmt)
    assert found.holds, lines(found)
    assert {"ct.gt.vv: real numbers decide", "node 'TopK_0.1' (TopIndices): finds integers"} <= {
        *found.reserves
    }


def test_kernels_that_find_other_places_are_not_proved() -> None:
    found = proof_of("topk", "fp16", OPERATORS["topk"].replace("axis = 1", "axis = 1, largest = 0"))
    assert not found.holds and not found.proved


def _graph(name: str, fmt: str) -> Any:
    text = {**FUNCTIONS, **EXAMPLES, **OPERATORS}[name]
    return graph_of(text, case_of(name, fmt))


@pytest.mark.parametrize(
    ("name", "fmt", "changes", "output", "count", "first"),
    [
        ("add", "fp16", {"n": 3000}, "out", 1, (3000,)),
        ("softmax_block", "fp32", {"rows": 36}, "out", 101, (36, 0)),
        ("layer_norm", "bf16", {"eps": 2e-5}, "out", 11 * 781, (0, 0)),
        ("layer_norm", "fp16", {"columns": 780}, "out", 11 * 781, (0, 0)),
        ("matmul_small", "fp32", {"b_step": 44}, "c", 17 * 45, (0, 0)),
        ("attention", "fp16", {"scale": 0.2}, "out", 2 * 150 * 64, (0, 0, 0)),
    ],
)
def test_wrong_launches_are_found(
    name: str, fmt: str, changes: dict[str, Any], output: str, count: int, first: tuple[int, ...]
) -> None:
    """A mask that ends too early, another number, a row read at a wrong place."""
    found = proof_of(name, fmt, changes=changes).differences[0]
    assert (found.output, found.count, found.index) == (output, count, first)


def test_a_missing_term_is_named_with_its_line_of_python() -> None:
    found = proof_of("matmul_small", "fp16", changes={"k": 98}, explain=True)
    assert found.mistake == (
        "node 'MatMul_0' (MatMul): t[0, 0] lacks a[0, 98] * b[98, 0], computed by ne.gemm of tile 0 "
        "(kernels.py:155)"
    )


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("softmax_block_narrow", "e = Exp(x) s = ReduceSum(e, $[0]) out = Div(e, s)"),
        ("sigmoid", "n = Neg(x) e = Exp(n) s = Add(e, $2.) out = Reciprocal(s)"),
        ("gelu", FUNCTIONS["silu"]),
        ("clamp", "out = Clip(x, $-0.5, $0.5)"),
        ("attention", EXAMPLES["attention_causal"]),
    ],
)
def test_another_graph_is_found(name: str, text: str) -> None:
    found = proof_of(name, "fp16", text)
    assert found.differences, lines(found)


def test_powers_of_two_are_exponentials() -> None:
    """exp2(x log2(e)) is exp(x), log2(x) is ln(x) log2(e); with another factor neither holds."""
    assert proof_of("pow", "fp16", "l = Log(x) p = Mul(l, y) out = Exp(p)").holds
    assert proof_of("pow", "fp16", "l = Log(x) q = Mul(l, $1.5) p = Mul(q, y) out = Exp(p)").differences


HAND = """
        .equ left, 0x10000
        .equ right, 0x20000
        .equ sum, 0x30000
_start: csrr    t0, mhartid
        bnez    t0, end
        rdma.fp32 dst=left, src=x, n=100
        rdma.fp32 dst=right, src=y, n=100
        ncc.wait
        ct.{op}.vv.fp32 dst=sum, src0=left, src1=right, n=100
        ncc.wait
        wdma.fp32 dst=z, src=sum, n=100
        ncc.wait
end:    li      a7, 93
        ecall
        .input x, fp32, 100, tensor
        .input y, fp32, 100, tensor
        .output z, fp32, 100, tensor
"""


def _sum(dtype: str = "float32", count: int = 100, output: str = "z", right: str = "y") -> dict[str, Any]:
    inputs = [{"name": name, "dtype": dtype, "shape": [count]} for name in sorted({"x", right})]
    nodes = [{"op": "Add", "name": "sum", "inputs": ["x", right], "outputs": [output]}]
    return {"name": "sum", "opset": 20, "inputs": inputs, "outputs": [output], "nodes": nodes}


def _saved(folder: Path, graph: dict[str, Any]) -> Path:
    (folder / "sum.json").write_text(json.dumps(graph))
    return folder / "sum.json"


@pytest.mark.parametrize(("op", "holds"), [("add", True), ("sub", False)])
def test_assembly_by_hand_is_proved(op: str, holds: bool, tmp_path: Path) -> None:
    program = tx8.assemble(HAND.format(op=op))
    found = program.prove(_saved(tmp_path, _sum()))
    assert found.holds == holds
    assert holds or found.differences[0].by == "ct.sub.vv of tile 0 (program.s:10)"


@pytest.mark.parametrize(
    ("graph", "message"),
    [
        (_sum(output="out"), "the program has no output 'out'; its outputs: z"),
        (_sum(count=99), "input 'x' has 99 elements in the graph, 100 in the program"),
        (_sum("int32"), "input 'x' is int32 in the graph, float32 in the program"),
        (
            {
                **_sum(),
                "inputs": _sum()["inputs"][:1],
                "nodes": [{**_sum()["nodes"][0], "inputs": ["x", "x"]}],
            },
            "the program reads 'y', which is no input of the graph",
        ),
    ],
)
def test_graphs_of_other_programs_are_refused(graph: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(tx8.Error) as error:
        tx8.assemble(HAND.format(op="add")).prove(_saved(tmp_path, graph))
    assert str(error.value) == message


_TEXT = str(ROOT / "examples/triton/ttir/add_fp16.ttir")
_LAUNCH = ["--grid", "1", *(part for name in ("x", "y", "out") for part in ("--arg", f"{name}=100"))]


def test_the_command_proves_a_kernel(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    graph = _saved(tmp_path, _sum(output="out"))
    for count, status in ((100, 0), (99, 3)):
        given = [*_LAUNCH, "--arg", f"n={count}", f"--prove={graph}", "-q", "-o", str(tmp_path / "made")]
        assert main([_TEXT, *given]) == status
    right, wrong = capsys.readouterr().out.splitlines()[:2]
    assert right == "proved: out, 100 elements"
    assert wrong == "WRONG: 1 of 100 elements of out; the first is out[99], which is 0"


def test_a_kernel_of_python_is_proved(tmp_path: Path) -> None:
    """Unstored elements stay as they were, which no graph says that does not read the array."""
    graph, x = _saved(tmp_path, _sum(output="out")), np.zeros(100, np.float16)
    kernel = tx8.triton_kernel(_TEXT)
    assert kernel.program(1, x, x, x, 100).prove(graph).holds
    assert [each.instead for each in kernel.program(1, x, x, x, 99).prove(graph).differences] == [
        "out.before[99]"
    ]


def test_arrays_that_are_read_and_written_have_two_names() -> None:
    """The graph reads ``out`` and says what ``out.after`` is."""
    made = case_of("softmax", "fp16")
    text = EXAMPLES["softmax"].replace("781], $[37, 800]", "780], $[37, 799]")
    found = prove_image(made.program(), graph_of(text, made), explain=False)
    assert [(each.output, each.index) for each in found.differences] == [("out.after", (0, 781))]
