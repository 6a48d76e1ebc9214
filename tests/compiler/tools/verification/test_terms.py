"""A proof's report of a wrong sum: terms that are missing, doubled, or have another factor."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pytest

import emulator
from compiler.driver import Program, compile_graph
from compiler.evaluation.field.run import FieldGraph
from compiler.graph import Graph, GraphError
from compiler.tools.verification.findings import Proof, lines
from compiler.tools.verification.prove import prove
from compiler_harness import draw, graph, one
from program_mutants import Mutant, drawn
from tx8isa.numbers.formats import Format
from tx8isa.numbers.prime_field import PrimeField

FIELD = PrimeField(1, exponentials=False)


def product(*after: tuple[str, list[str], list[str], dict[str, int]]) -> Graph:
    """A product of 24 terms, a bias, and the operators after ``a``."""
    nodes = [("MatMul", ["x", "w"], ["m"], {}), ("Add", ["m", "b"], ["a"], {}), *after]
    return graph(nodes, {"x": (40, 24)}, {"w": draw(24, 16), "b": draw(16)}, nodes[-1][2])


def changed(program: Program, pattern: str, change: Callable[[str], str], seed: int = 1) -> Proof:
    """The proof of a program whose first line with a pattern is another one."""
    texts = enumerate(program.text.splitlines(), 1)
    number = next(number for number, line in texts if re.search(pattern, line))
    return prove(Mutant("changed", number, change).of(program), seed)


GEMM, BIAS = r"ne\.gemm", r"ct\.add\.vuv"


@pytest.mark.parametrize(
    ("pattern", "change", "said"),
    [
        (GEMM, lambda line: line.replace("k=24", "k=23"), r"lacks x\[0, 23\] \* w\[23, 0\]"),
        (
            GEMM,
            lambda line: line.replace("k=24", "k=16"),
            r"lacks x\[0, 16\] \* w\[16, 0\] to x\[0, 23\] \* w\[23, 0\], 8 of 24 terms",
        ),
        (
            GEMM,
            lambda line: f"{line}\n{line}, psum=p0.product, psum_format=fp32",
            r"has twice x\[0, 0\] \* w\[0, 0\] to x\[0, 23\] \* w\[23, 0\], 24 of 24 terms",
        ),
        (BIAS, lambda line: "", r"lacks \S+\[0\]"),
        (BIAS, lambda line: f"{line}\n{line}", r"has twice \S+\[0\]"),
        (
            BIAS,
            lambda line: line.replace("src1=p0.bias", "src1=p0.bias+4"),
            r"has \S+\[1\] in place of \S+\[0\]",
        ),
        (
            r"rdma\.fp32 .*dst=p0\.a_tail",
            lambda line: re.sub(r"^(.*src=)(\w+)", r"        addi \2, \2, 96\n\1\2", line),
            r"has x\[1, 0\] in place of x\[0, 0\] and so on in 24 of 24 terms",
        ),
    ],
)
@pytest.mark.parametrize("after", [(), (("Relu", ["a"], ["y"], {}),)], ids=["last", "before a ReLU"])
def test_the_terms_that_make_a_sum_wrong_are_named(
    pattern: str, change: Callable[[str], str], said: str, after: tuple[object, ...]
) -> None:
    found = changed(compile_graph(product(*after), "fp16"), pattern, change)  # type: ignore[arg-type]
    assert found.differences
    text = rf"node '\S+' \(Gemm\): \S+\[0, 0\] {said}, computed by \S+ of tile 0 \(prog\.s:\d+, node 'n\d'\)"
    assert re.fullmatch(text, found.mistake), lines(found)
    assert found.mistake in lines(found)


def test_a_mistake_far_from_the_output_is_named() -> None:
    """Every output element depends on many wrong ones; all are as without the term."""
    made = graph(
        [("MatMul", ["x", "w"], ["m"], {}), ("Tanh", ["m"], ["p"], {}), ("MatMul", ["p", "v"], ["y"], {})],
        {"x": (40, 24)},
        {"w": draw(24, 16), "v": draw(16, 32)},
    )
    found = changed(compile_graph(made, "fp16"), GEMM, lambda line: line.replace("k=24", "k=16"))
    assert found.differences
    said = "(MatMul): m[0, 0] lacks x[0, 16] * w[16, 0] to x[0, 23] * w[23, 0], 8 of 24 terms, computed by"
    assert said in found.mistake, lines(found)


def test_channels_that_a_convolution_lacks_are_named() -> None:
    program = compile_graph(one("Conv", [(1, 128, 5, 6)], {"w": draw(16, 128, 3, 3)}), "fp16", 1)
    found = changed(program, r"ne\.conv\.fp16", lambda line: line.replace("[1,5,6,128]", "[1,5,6,64]"))
    said = "lacks a[0, 64, 0, 0] * w[0, 64, 0, 0] to a[0, 127, 2, 2] * w[0, 127, 2, 2], 576 of 1,152 terms"
    assert said in found.mistake, lines(found)


@pytest.mark.parametrize(
    ("pattern", "change", "instead"),
    [
        (r"ct\.relu", lambda line: "", r"a\[\d+, \d+\]"),
        (r"wdma", lambda line: line.replace("src=p0.product", "src=p0.product+64"), r"y\[1, 0\]"),
        (r"wdma", lambda line: "", "0"),
    ],
)
def test_what_is_in_place_of_an_element_is_named(
    pattern: str, change: Callable[[str], str], instead: str
) -> None:
    found = changed(compile_graph(product(("Relu", ["a"], ["y"], {})), "fp16"), pattern, change)
    assert re.fullmatch(instead, found.differences[0].instead), lines(found)
    assert f", which is {found.differences[0].instead}" in lines(found)[0]


@pytest.mark.long
def test_another_seed_names_the_same_terms() -> None:
    """The named terms are not a coincidence of elements."""
    program, named = compile_graph(product(), "fp16"), 0
    for mutant in drawn(program, 14, seed=4):
        try:
            first = prove(mutant.of(program), 1)
        except (emulator.Fault, GraphError):
            continue
        if first.mistake:
            named += 1
            assert prove(mutant.of(program), 2).mistake == first.mistake
    assert named > 2


def test_a_mistake_without_such_terms_names_none() -> None:
    """The bias is multiplied instead of added."""
    program = compile_graph(product(), "fp16")
    found = changed(program, BIAS, lambda line: line.replace("ct.add", "ct.mul"))
    assert found.differences
    assert not found.mistake
    assert found.blamed is not None
    assert "no instruction computes its result" in lines(found)[-1]


CASES: list[tuple[str, list[tuple[int, ...]], dict[str, object]]] = [
    ("MatMul", [(2, 3, 5, 7), (3, 7, 4)], {}),
    ("MatMul", [(3, 5, 7), (7, 4)], {}),
    ("Gemm", [(5, 7), (4, 7), (4,)], {"transB": 1, "alpha": 0.5, "beta": 2.0}),
    ("Gemm", [(7, 5), (7, 4), (5, 1)], {"transA": 1}),
    ("Conv", [(2, 4, 7, 6), (6, 4, 3, 2), (6,)], {"pads": (1, 0, 1, 1), "strides": (2, 1)}),
    ("Conv", [(1, 4, 7, 6), (6, 2, 3, 3)], {"group": 2, "dilations": (2, 1)}),
    ("Conv", [(1, 4, 9), (4, 1, 3)], {"group": 4}),
    ("Add", [(3, 5), (5,)], {}),
    ("Sum", [(3, 5), (5,), (3, 1)], {}),
    ("ReduceSum", [(3, 5, 4)], {"keepdims": 0}),
    ("ReduceMean", [(3, 5, 4)], {}),
]


@pytest.mark.parametrize(("op", "shapes", "attrs"), CASES)
def test_an_element_is_the_sum_of_its_terms(
    op: str, shapes: list[tuple[int, ...]], attrs: dict[str, object]
) -> None:
    """Against the operator's definition: all terms add up to the element, and some to their own sum."""
    made = one(op, shapes, **attrs)
    wanted = FieldGraph(made, Format.FP32, FIELD, lambda *_: pytest.fail("it has a definition"))
    values = wanted.run({each.name: FIELD.random(each.name, each.shape) for each in made.inputs})
    result, rng = values[made.outputs[0].name], np.random.default_rng(1)
    for _ in range(8):
        index = tuple(int(rng.integers(extent)) for extent in result.shape[1:])
        total = np.zeros(FIELD.residues)
        for part in wanted.parts(made.nodes[0], values, index):
            factors = [values[made.nodes[0].inputs[at]] for at in part.operands]
            terms = part.terms(FIELD, factors, part.places)
            total += terms.sum(1)
            assert all(sorted(order) == list(range(terms.shape[1])) for order in part.orders)
            chosen = np.flatnonzero(rng.random(terms.shape[1]) < 0.5)
            if chosen.size:
                alone = part.of_terms(factors, chosen)[(slice(None), *index)]
                assert (FIELD.canonical(alone) == FIELD.canonical(terms[:, chosen].sum(1))).all()
        assert (FIELD.canonical(total) == FIELD.canonical(result[(slice(None), *index)])).all()
