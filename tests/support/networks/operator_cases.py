"""Random calls of operators, compiled, run on the emulated chip and compared with ONNX's reference evaluator.

    python tests/support/networks/operator_cases.py NAME      run a case again that failed

A case that fails is kept as NAME.json and NAME.npz in build/operator_cases.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import compiler
from compiler.evaluation.storage import STORAGE
from compiler.evaluation.tolerance import judge
from compiler.graph import Array
from compiler.operators import OPERATORS
from compiler.tools import run
from onnx_oracle import Case, run_evaluator
from operator_draws import MORE, Draw, Random
from tx8isa.numbers.rounding import rounded

KEPT = Path("build/operator_cases")

_UNIT = ("Asin", "Acos", "Atanh")
_POSITIVE = ("Log", "Sqrt", "Reciprocal")
_UNARY = [
    "Abs",
    "Neg",
    "Sign",
    "Reciprocal",
    "Log",
    "Sqrt",
    "Sin",
    "Cos",
    "Tan",
    "Sinh",
    "Cosh",
    "Asin",
    "Acos",
    "Atan",
    "Asinh",
    "Acosh",
    "Atanh",
    "Ceil",
    "Floor",
    "Round",
    "Softplus",
    "Softsign",
    "HardSwish",
    "Mish",
    "Elu",
    "Celu",
    "Selu",
    "HardSigmoid",
    "Swish",
    "ThresholdedRelu",
    "Shrink",
    "Relu",
    "Exp",
    "Tanh",
]
_REDUCTIONS = [
    "ReduceSum",
    "ReduceMean",
    "ReduceMax",
    "ReduceMin",
    "ReduceProd",
    "ReduceL1",
    "ReduceL2",
    "ReduceSumSquare",
    "ReduceLogSumExp",
]
_MOVEMENT = (
    *(
        "Gather",
        "Split",
        "Tile",
        "Trilu",
        "Slice",
        "Pad",
        "Expand",
        "Unsqueeze",
        "GatherElements",
        "GatherND",
    ),
    *("ScatterElements", "ScatterND", "ReverseSequence", "TensorScatter", "MaxUnpool"),
)
_QUANTISING = ("QuantizeLinear", "DynamicQuantizeLinear")


def _shape(rng: Random, lowest: int = 1, highest: int = 4) -> tuple[int, ...]:
    return tuple(int(n) for n in rng.integers(1, 9, rng.integers(lowest, highest + 1)))


def _normal(rng: Random, shape: tuple[int, ...]) -> Array:
    return rng.standard_normal(shape).astype(np.float32)


def _unary(op: str) -> Draw:
    def draw(rng: Random) -> tuple[dict[str, Array], dict[str, Any]]:
        x = _normal(rng, _shape(rng))
        if op in _UNIT:
            x = np.tanh(x) * np.float32(0.9)
        elif op in _POSITIVE or op == "Acosh":
            x = np.abs(x) + np.float32(1.125 if op == "Acosh" else 0.25)
        elif op in ("Round", "Ceil", "Floor", "Sign"):
            x = np.round(x * 3) / np.float32(4)
        elif op == "Tan":
            x = np.tanh(x)
        return {"x": x}, {}

    return draw


def _binary(rng: Random) -> tuple[dict[str, Array], dict[str, Any]]:
    shape = _shape(rng)
    other = tuple(1 if rng.random() < 0.3 else n for n in shape)[int(rng.integers(0, len(shape))) :]
    return {"a": np.round(_normal(rng, shape) * 2), "b": np.round(_normal(rng, other) * 2)}, {}


def _reduction(rng: Random) -> tuple[dict[str, Array], dict[str, Any]]:
    shape = _shape(rng)
    axes = np.flatnonzero(rng.random(len(shape)) < 0.6)
    operands = {"x": _normal(rng, shape)} | ({"axes": axes.astype(np.int64)} if axes.size else {})
    return operands, {"keepdims": int(rng.integers(0, 2))}


def _product(rng: Random) -> tuple[dict[str, Array], dict[str, Any]]:
    """Factors near 1 and -1, because products of many others leave the range of FP16."""
    operands, attrs = _reduction(rng)
    x = operands["x"]
    return operands | {"x": np.sign(x) * (1 + np.tanh(x) / np.float32(8))}, attrs


def _along(rng: Random) -> tuple[dict[str, Array], dict[str, Any]]:
    x = _normal(rng, _shape(rng))
    return {"x": x}, {"axis": int(rng.integers(0, x.ndim))}


def _indexed(rng: Random) -> tuple[dict[str, Array], dict[str, Any]]:
    operands, attrs = _along(rng)
    size = operands["x"].shape[attrs["axis"]]
    return operands | {"i": rng.integers(-size, size, _shape(rng, 1, 2))}, attrs


def _per_element(rng: Random) -> tuple[dict[str, Array], dict[str, Any]]:
    operands, attrs = _along(rng)
    x = operands["x"]
    return operands | {"i": rng.integers(0, x.shape[attrs["axis"]], x.shape)}, attrs


def _tile(rng: Random) -> tuple[dict[str, Array], dict[str, Any]]:
    x = _normal(rng, _shape(rng, 1, 3))
    return {"x": x, "r": rng.integers(1, 4, x.ndim)}, {}


def _slice(rng: Random) -> tuple[dict[str, Array], dict[str, Any]]:
    """Every axis backwards or forwards with a step."""
    x = _normal(rng, _shape(rng, 1, 3))
    steps = rng.choice([-3, -2, -1, 1, 2], x.ndim)
    starts = np.where(steps < 0, x.shape, 0)
    ends = np.where(steps < 0, -1 - np.array(x.shape), x.shape)
    return {"x": x, "s": starts, "e": ends, "a": np.arange(x.ndim), "t": steps}, {}


def _pad(rng: Random) -> tuple[dict[str, Array], dict[str, Any]]:
    x = _normal(rng, tuple(n + 3 for n in _shape(rng, 1, 3)))
    return {"x": x, "p": rng.integers(0, 3, 2 * x.ndim)}, {
        "mode": str(rng.choice(["constant", "reflect", "edge"]))
    }


def _where(rng: Random) -> tuple[dict[str, Array], dict[str, Any]]:
    operands, _ = _binary(rng)
    return {"c": rng.random(operands["a"].shape) < 0.5, **operands}, {}


def _transposed(rng: Random) -> tuple[dict[str, Array], dict[str, Any]]:
    channels, maps, kernel = (int(n) for n in rng.integers(1, 5, 3))
    x = _normal(rng, (int(rng.integers(1, 3)), channels, *(int(n) for n in rng.integers(1, 7, 2))))
    steps = tuple(int(n) for n in rng.integers(1, 3, 2))
    return {"x": x, "w": _normal(rng, (channels, maps, kernel, kernel))}, {"strides": steps}


DRAWS: dict[str, Draw] = {
    **{op: _unary(op) for op in _UNARY},
    **dict.fromkeys(("Equal", "Greater", "Less", "GreaterOrEqual", "LessOrEqual"), _binary),
    **dict.fromkeys(_REDUCTIONS, _reduction),
    **dict.fromkeys(("LogSoftmax", "Softmax", "ArgMax", "ArgMin", "Hardmax"), _along),
    "Gather": _indexed,
    "GatherElements": _per_element,
    "Tile": _tile,
    "Slice": _slice,
    "Pad": _pad,
    "ReduceProd": _product,
    "Where": _where,
    "ConvTranspose": _transposed,
    **MORE,
}


@dataclass
class Drawn:
    """One call, by name: operands, attributes and the compute type."""

    name: str
    op: str
    dtype: str
    operands: Mapping[str, Array | None]
    """In order; None is one omitted."""
    attrs: dict[str, Any] = field(default_factory=dict)

    def case(self) -> Case:
        """With floats rounded to the compute type."""
        rounded = {n: self._rounded(a) for n, a in self.operands.items() if a is not None}
        names = [name if array is not None else "" for name, array in self.operands.items()]
        return Case(self.op, rounded, self.attrs, max(OPERATORS[self.op].since, 25), names)

    def problem(self) -> str | None:
        """Return None if the chip gives ONNX's results, else the mistake."""
        case = self.case()
        expected = run_evaluator(case.model(), case.fed())
        graph = case.graph()
        got = run.execute(compiler.compile(graph, self.dtype), case.fed())[0]["out"]
        kind: Any = "quantising" if self.op in _QUANTISING else "operator"
        kind = "movement" if self.op in _MOVEMENT else kind
        verdict = judge(kind, self.dtype, got, np.asarray(expected))
        return None if verdict.ok else verdict.text

    def _rounded(self, array: Array) -> Array:
        if array.dtype != np.float32:
            return array
        return rounded(array, STORAGE[self.dtype]).astype(np.float32)

    def keep(self) -> None:
        """Write the case to be run again by its name."""
        KEPT.mkdir(parents=True, exist_ok=True)
        (KEPT / f"{self.name}.json").write_text(
            json.dumps(
                {"op": self.op, "dtype": self.dtype, "attrs": self.attrs, "operands": list(self.operands)}
            )
        )
        given = {name: array for name, array in self.operands.items() if array is not None}
        np.savez(KEPT / f"{self.name}.npz", **given)  # type: ignore[arg-type]


def drawn(op: str, dtype: str, seed: int) -> Drawn:
    """The call of an operator that a seed gives."""
    operands, attrs = DRAWS[op](np.random.default_rng([seed, *op.encode()]))
    return Drawn(f"{op}_{dtype}_{seed}", op, dtype, operands, attrs)


def kept(name: str) -> Drawn:
    """A case that was kept."""
    head = json.loads((KEPT / f"{name}.json").read_text())
    attrs = {key: tuple(value) if isinstance(value, list) else value for key, value in head["attrs"].items()}
    with np.load(KEPT / f"{name}.npz") as data:
        operands = {key: data.get(key) for key in head["operands"]}
    return Drawn(name, head["op"], head["dtype"], operands, attrs)


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        print(argument, kept(argument).problem() or "passes")
