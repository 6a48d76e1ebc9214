"""A lowering's declaration of the unit that computes its operator, against the code that it makes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pytest

import compiler
from compiler.codegen.kernel import Kernel
from compiler.codegen.tree import Issue, Item
from compiler.graph import Graph
from compiler.lowering import LOWERINGS, Work
from compiler.lowering.record import Engine, lowering
from compiler.passes import codegen
from compiler_harness import draw, graph, ints, one
from control_models import declared, node
from found_models import FLOAT, INT64, found_graph, suppression, with_outputs
from operator_cases import DRAWS, drawn

GROUPS = {
    *("Append", "Chain", "Int8Sum", "IntegerSum", "PackedMatMul", "Pooled", "Sharded", "Sliced", "Stack"),
    *("tx8be.cast", "tx8be.channel_norm"),
}
"""Lowerings of what passes make; no operator of a graph has them."""
CHIPS = "chips."
"""The names of exchanges between chips; tests/compiler/test_programs_on_chips.py runs them on several."""
CONTROL = {"If", "Loop"}
"""Lowerings whose bodies compute; tests/compiler/test_control_by_data.py runs them."""
MNEMONICS = {Engine.MATRIX: ("ne.",), Engine.VECTOR: ("ct.",), Engine.DMA: ("rdma.", "wdma.", "td.", "dte.")}


@dataclass(frozen=True)
class Seen:
    """A phase of one operator: declared to run on the core, found to run there, its instructions."""

    declared: bool
    on_core: bool
    mnemonics: frozenset[str]

    def uses(self, engine: Engine) -> bool:
        return any(mnemonic.startswith(MNEMONICS[engine]) for mnemonic in self.mnemonics)


def mnemonics(items: list[Item]) -> Iterator[str]:
    for item in items:
        if isinstance(item, Issue):
            yield item.mnemonic
        yield from mnemonics(list(getattr(item, "body", ())))


def integer_graphs() -> Iterator[Graph]:
    """Operators whose random calls have no integers, or only integers that the core computes."""
    compared = ("Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual")
    arithmetic = ("Add", "Sub", "Mul", "Div", "Max", "Min", "Mod")
    for op in (*arithmetic, *compared, "BitwiseAnd", "BitwiseOr", "BitwiseXor"):
        yield graph([(op, ["a", "b"], ["y"], {})], {"a": (8, 9), "b": (8, 9)}, dtype="int32")
    for op in compared:
        for most in (99, 1 << 24):
            known = {"b": np.array([-most, 3, most], np.int32)}
            yield graph([(op, ["a", "b"], ["y"], {})], {"a": (8, 3)}, known, dtype="int32")
        yield graph([(op, ["a", "b"], ["y"], {})], {"a": (8, 9), "b": (8, 9)}, dtype="uint8")
    yield graph([("BitwiseNot", ["a"], ["y"], {})], {"a": (8, 9)}, dtype="int32")
    yield graph(
        [("BitShift", ["a", "b"], ["y"], {"direction": "LEFT"})], {"a": (8,), "b": (8,)}, dtype="uint8"
    )
    yield graph([("MatMul", ["a", "b"], ["y"], {})], {"a": (3, 4), "b": (4, 5)}, dtype="int32")
    yield graph([("Pad", ["a", "p"], ["y"], {})], {"a": (3, 4)}, {"p": ints(0, 1, 0, 1)}, dtype="int32")
    yield graph([("Pow", ["a", "b"], ["y"], {})], {"a": (3, 4), "b": (3, 4)}, dtype="int32")
    mask = {"c": np.arange(12).reshape(3, 4) % 2 > 0}
    yield graph([("Where", ["c", "a", "b"], ["y"], {})], {"a": (3, 4), "b": (3, 4)}, mask, dtype="int32")
    for to in (1, 6, 9):
        yield graph([("Cast", ["a"], ["y"], {"to": to})], {"a": (3, 4)}, dtype="int8")
        yield graph([("Cast", ["a"], ["y"], {"to": to})], {"a": (3, 4)}, dtype="bool")
        yield graph([("Cast", ["a"], ["y"], {"to": to})], {"a": (3, 4)}, dtype="float16")


def quantised_graphs() -> Iterator[Graph]:
    """Products of bytes with known bytes."""
    ones = {"s": np.array(0.5, np.float32), "z": np.array(3, np.int8)}
    for op, shape, weights in (
        ("QLinearConv", (1, 8, 9, 9), (4, 8, 3, 3)),
        ("QLinearMatMul", (5, 8), (8, 4)),
    ):
        names = ["a", "s", "z", "w", "s", "z", "s", "z"]
        known = ones | {"w": np.full(weights, 5, np.int8)}
        yield graph([(op, names, ["y"], {})], {"a": shape}, known, dtype="int8")


def float_graphs() -> Iterator[Graph]:
    """Operators that the random calls do not have, and rows that are long enough for the DMA."""
    yield one("Conv", [(1, 8, 9, 9)], {"w": draw(16, 8, 3, 3)})
    largest = [("Conv", ["a", "w"], ["b"], {}), ("GlobalMaxPool", ["b"], ["y"], {})]
    yield graph(largest, {"a": (1, 8, 9, 9)}, {"w": draw(16, 8, 3, 3)})
    yield one("Gemm", [(5, 70)], {"w": draw(70, 9)})
    yield one("MatMul", [(5, 70), (70, 9)])
    yield one("BatchNormalization", [(1, 8, 5, 5)], {name: draw(8) ** 2 for name in "smbv"})
    for op in ("MaxPool", "AveragePool"):
        yield one(op, [(1, 8, 9, 9)], kernel_shape=(2, 2))
    for op in ("GlobalAveragePool", "Relu", "Erf", "LeakyRelu", "Gelu", "IsNaN", "IsInf"):
        yield one(op, [(1, 8, 9, 9)])
    for op in ("LayerNormalization", "RMSNormalization"):
        yield graph([(op, ["a", "s"], ["y"], {})], {"a": (6, 70)}, {"s": draw(70)}, opset=24)
    yield one("Gather", [(9, 40)], {"i": ints(3, 1)}, axis=0)
    indices = ("Cast", ["k"], ["i"], {"to": 7})
    yield graph([indices, ("GatherND", ["a", "i"], ["y"], {})], {"a": (9, 40), "k": (2, 1)})
    yield graph(
        [indices, ("ScatterND", ["a", "i", "u"], ["y"], {})], {"a": (9, 40), "k": (2, 1), "u": (2, 40)}
    )
    yield one("PRelu", [(4, 9, 40)], {"s": draw(9, 1)})
    yield graph([("Not", ["a"], ["y"], {})], {"a": (8, 9)}, dtype="bool")
    yield graph([("BitCast", ["a"], ["y"], {"to": 6})], {"a": (8, 9)}, opset=26)
    yield one(
        "Resize",
        [(1, 4, 5, 5)],
        {"r": np.zeros(0, np.float32), "s": np.float32([1, 1, 2, 2])},
        mode="nearest",
    )
    heads = [
        ("MatMul", ["q", "k"], ["s"], {}),
        ("Softmax", ["s"], ["p"], {}),
        ("MatMul", ["p", "v"], ["y"], {}),
    ]
    yield graph(heads, {"q": (1, 2, 8, 16), "k": (1, 2, 16, 8), "v": (1, 2, 8, 16)})
    tables = {name: draw(1, 8, 8) for name in ("cos", "sin")}
    yield graph([("RotaryEmbedding", ["a", *tables], ["y"], {})], {"a": (1, 2, 8, 16)}, tables, opset=23)
    weights = {"w": draw(1, 256, 6), "r": draw(1, 256, 64)}
    yield graph([("LSTM", ["a", *weights], ["y"], {"hidden_size": 64})], {"a": (3, 2, 6)}, weights)
    for op in ("Add", "Sub", "Mul", "Div", "Max", "Min", "Sum", "Mod"):
        yield one(op, [(8, 9), (8, 9)], **({"fmod": 1} if op == "Mod" else {}))
    for op in ("And", "Or", "Xor"):
        yield graph([(op, ["a", "b"], ["y"], {})], {"a": (8, 9), "b": (8, 9)}, dtype="bool")
    yield one("ArgMax", [(64, 100)], axis=1)
    yield one("Concat", [(8, 9), (8, 9)], axis=0)
    yield one("Transpose", [(8, 9)], perm=(1, 0))


def found_graphs() -> Iterator[Graph]:
    """Operators whose results have sizes that data decides, as they are read from ONNX."""
    x = declared("x", [9, 40])
    places = [node("NonZero", ["x"], ["n"]), node("Transpose", ["n"], ["y"])]
    rows = [node("Unique", ["x"], ["y", "", "back"], sorted=0, axis=0)]
    largest = [node("TopK", ["x", "k"], ["v", "y"])]
    inputs, select = suppression((1, 2, 20), most=[3], iou=[0.5])
    limits = {"most": np.array([3]), "iou": np.float32([0.5])}
    for model in (
        with_outputs(places, [x], {"n": INT64, "y": INT64}),
        with_outputs(rows, [x], {"y": FLOAT, "back": INT64}),
        with_outputs(largest, [x, declared("k", [1], INT64)], {"y": INT64}),
        with_outputs([select], inputs, {"found": INT64}, limits),
    ):
        yield found_graph(model)


@pytest.fixture(scope="module")
def seen() -> dict[str, list[Seen]]:
    """By operator, the phases of random and of chosen calls; every operator is a separate phase."""
    found: dict[str, list[Seen]] = defaultdict(list)
    make = codegen.generate

    def generate(prefix: str, work: Work, *rest: object) -> Kernel:
        kernel = make(prefix, work, *rest)  # type: ignore[arg-type]
        entry = LOWERINGS[work.op]
        if work.call is not None and not work.steps:
            declared = entry.on_core is not None and entry.on_core(work.call)
            found[work.op].append(Seen(declared, kernel.on_core, frozenset(mnemonics(kernel.tree))))
        return kernel

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(codegen, "generate", generate)
        graphs = [drawn(op, "fp16", seed).case().graph() for op in sorted(DRAWS) for seed in range(2)]
        for made in (*graphs, *integer_graphs(), *quantised_graphs(), *float_graphs(), *found_graphs()):
            compiler.compile(made, "fp16", patterns="none", search="off")
    return found


@pytest.mark.long
def test_the_core_computes_what_is_said_to_be_on_it(seen: dict[str, list[Seen]]) -> None:
    wrong = {op for op, phases in seen.items() for phase in phases if phase.declared != phase.on_core}
    assert wrong == set()


@pytest.mark.long
def test_every_declaration_was_seen(seen: dict[str, list[Seen]]) -> None:
    """A lowering that runs on engines or on the core by the call was seen with both."""
    missing = []
    for op, entry in LOWERINGS.items():
        if entry.lower is None or op in GROUPS | CONTROL or op.startswith(CHIPS):
            continue
        ways = {phase.on_core for phase in seen[op]}
        wanted = ({False} if entry.engines else set()) | ({True} if entry.on_core else set())
        missing += [op] if ways != wanted else []
    assert missing == []


@pytest.mark.long
def test_the_engines_that_are_named_are_used(seen: dict[str, list[Seen]]) -> None:
    for op in (op for op in seen if op not in CONTROL and not op.startswith(CHIPS)):
        phases = seen[op]
        for engine in LOWERINGS[op].engines:
            assert any(phase.uses(engine) for phase in phases), f"{op} never uses the {engine.value} engine"


@pytest.mark.long
def test_the_matrix_engine_multiplies_floats_only_where_it_is_named(seen: dict[str, list[Seen]]) -> None:
    """Its INT8 instructions move bytes: they transpose rows."""
    for op, phases in seen.items():
        used = {m for phase in phases for m in phase.mnemonics if m.startswith("ne.") and "int8" not in m}
        assert not used or Engine.MATRIX in LOWERINGS[op].engines, f"{op}: {sorted(used)}"


def test_a_lowering_that_does_not_say_what_computes_it_is_refused() -> None:
    with pytest.raises(ValueError, match="the lowering of Mine does not say what computes it"):

        @lowering("Mine")
        def mine(kernel: Kernel, work: Work) -> None:
            """Nothing."""

    assert "Mine" not in LOWERINGS
