"""Draws random ONNX graphs of many operators and types; ``random_runs`` compiles and runs them.

onnxruntime computes every value when it is drawn, node by node, so shapes, types and results are known.
Comparisons, roundings and indices are applied only to numbers that the program computes exactly.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np
from onnx import ModelProto, NodeProto, ValueInfoProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from compiler.graph import Array
from onnx_oracle import onnxruntime
from special_numbers import listed

onnxruntime.set_default_logger_severity(4)

Random = np.random.Generator
LARGEST = 3000
"""Elements of a value."""
_EXACT_BITS = {"fp32": 20, "fp16": 9, "bf16": 6}
"""Bits of numbers that stay exact through a sum or two in a format."""

_BY_EVALUATOR = ("MatMulInteger", "ConvInteger", "GridSample")
"""Operators that onnxruntime computes wrongly: sums of two products saturate; cubic samples at a border."""
_MOST = {
    "LRN": 1e3,  # onnxruntime subtracts squares that leave the window from the remaining ones
    **{"LpNormalization": 1e18, "ReduceL2": 1e18, "Sigmoid": 16.0},
    **{"LSTM": 16.0, "GRU": 16.0, "RNN": 16.0},
    **dict.fromkeys(("MatMul", "Gemm", "Conv", "ConvTranspose"), 1e4),
}
"""The largest operands for which onnxruntime is an oracle. Beyond, squares overflow, small sigmoids become 0,
and the last digits of sums of large products, which later operators may amplify, depend on their order."""
_CANCELLED = (
    *("LayerNormalization", "GroupNormalization", "InstanceNormalization", "LogSoftmax"),
    *("Add", "Sub", "Sum", "ReduceSum", "ReduceMean", "ReduceLogSumExp", "CumSum"),
    *("MatMul", "Gemm", "Conv", "Einsum"),
)
_NOISE = 1e-4
"""Operators that add up numbers, and the part of the largest operand below which all results are noise."""
ENDS = {"fp16": 65504.0, "bf16": 3.3e38, "fp32": 3.0e38}
"""The largest numbers of formats, nearly."""
_OF_SUMS = ("Einsum", "LRN")
"""Operators of finite numbers only: products and sums of the matrix engine (docs/numbers.md); in onnxruntime
infinity stays in the running sum of squares when its channel has left."""


@dataclass(frozen=True)
class Setting:
    """The options with which a graph is compiled."""

    dtype: str
    tiles: int
    search: str
    residency: str
    spm_bytes: int


def setting(seed: int) -> Setting:
    """Return the options for the graph of a seed: mostly FP32, whose tolerance is the smallest."""
    rng = np.random.default_rng([81, seed])
    return Setting(
        str(rng.choice(["fp32"] * 6 + ["fp16", "bf16"])),
        int(rng.choice([1, 2, 3, 7, 16, 16])),
        str(rng.choice(["off", "fast", "fast"])),
        str(rng.choice(["off", "on", "on"])),
        int(rng.choice([0x20000, 0x300000, 0x300000])),
    )


@dataclass
class GraphDraw:
    """Nodes in order, the constants they read, and the arrays of all values by name."""

    rng: Random
    dtype: str
    opset: int
    special: bool
    """True if inputs have NaN, infinities and the largest and smallest numbers."""
    inputs: dict[str, Array] = field(default_factory=dict)
    values: dict[str, Array] = field(default_factory=dict)
    nodes: list[NodeProto] = field(default_factory=list)
    constants: dict[str, Array] = field(default_factory=dict)
    exact: set[str] = field(default_factory=set)
    """Floats that the program computes without a rounding."""
    unread: set[str] = field(default_factory=set)
    """Values that no other node reads."""

    def whole(self, lowest: int, highest: int) -> int:
        """A number from lowest to highest."""
        return int(self.rng.integers(lowest, highest + 1))

    def one_of(self, *choices: Any) -> Any:
        return choices[self.whole(0, len(choices) - 1)]

    def maybe(self, chance: float) -> bool:
        return bool(self.rng.random() < chance)

    def take(self, kinds: str, rank: int | None = None, exact: bool = False, least: int = 0) -> str | None:
        """A value of a kind of NumPy (f, i, u, b), mostly a late one; None if there is none."""
        names = [
            name
            for name, array in self.values.items()
            if array.dtype.kind in kinds
            and name not in self.unread
            and rank in (None, array.ndim)
            and array.ndim >= least
            and (not exact or array.dtype.kind != "f" or name in self.exact)
        ]
        if not names:
            return None
        return names[-1 if self.maybe(0.6) else self.whole(0, len(names) - 1)]

    def like(self, name: str, exact: bool = False) -> str:
        """A value of the same type that can be broadcast with another: a value, an input or a constant."""
        array = self.values[name]
        same = [
            other
            for other, given in self.values.items()
            if given.shape == array.shape and given.dtype == array.dtype and other not in self.unread
            if not exact or array.dtype.kind != "f" or other in self.exact
        ]
        if self.maybe(0.5):
            return str(self.one_of(*same))
        shape = tuple(1 if self.maybe(0.4) else size for size in array.shape)[self.whole(0, array.ndim) :]
        return self.given(shape, array.dtype)

    def given(self, shape: Sequence[int], dtype: Any = np.float32) -> str:
        """A new constant, or sometimes an input."""
        array = self.numbers(shape, dtype)
        return self.input(array) if self.maybe(0.2) else self.constant(array)

    def numbers(self, shape: Sequence[int], dtype: Any = np.float32) -> Array:
        """Small numbers of few bits; floats are eighths."""
        kind = np.dtype(dtype).kind
        if kind == "f":
            return np.asarray(self.rng.integers(-24, 25, shape) / 8, dtype)
        if kind == "b":
            return np.asarray(self.rng.random(shape) < 0.5)
        return np.asarray(self.rng.integers(0 if kind == "u" else -9, 10, shape), dtype)

    def input(self, array: Array) -> str:
        name = f"x{len(self.inputs)}"
        self.inputs[name] = self.values[name] = array
        short = {"fp16": np.float16, "bf16": ml_dtypes.bfloat16}.get(self.dtype, array.dtype)
        if array.dtype.kind != "f" or np.array_equal(array.astype(short), array, equal_nan=True):
            self.exact.add(name)
        return name

    def constant(self, array: Any) -> str:
        name = f"c{len(self.constants)}"
        self.constants[name] = np.asarray(array)
        return name

    def ints(self, *numbers: int) -> str:
        return self.constant(np.array(numbers, np.int64))

    def weight(self, *shape: int, scale: float = 1.0) -> str:
        """Weights of 5 bits."""
        power = 2.0 ** np.floor(np.log2(scale))
        return self.constant((self.rng.integers(-16, 17, shape) / 16 * power).astype(np.float32))

    def operand(self, name: str) -> Array:
        return self.constants[name] if name in self.constants else self.values[name]

    def add(
        self,
        op: str,
        operands: Sequence[str],
        results: int = 1,
        exact: bool = False,
        captured: Sequence[str] = (),
        **attrs: Any,
    ) -> bool:
        """Add a node unless onnxruntime refuses it or a result is too large; ``exact``: it never rounds."""
        outputs = [f"v{len(self.values) + at}" for at in range(results)]
        node = helper.make_node(op, operands, outputs, name=f"n{len(self.nodes)}", **attrs)
        given = {name: self.operand(name) for name in (*operands, *captured) if name}
        if op in (*listed(single=True), *_OF_SUMS) and not all(map(_is_finite, given.values())):
            return False
        if any(_largest(array) > min(_MOST.get(op, np.inf), ENDS[self.dtype]) for array in given.values()):
            return False
        found = self._computed(node, given)
        if found is None or not all(0 < array.size <= LARGEST for array in found):
            return False
        if op in _CANCELLED and any(
            0 < _largest(a) < _NOISE * max(map(_largest, given.values())) for a in found
        ):
            return False
        if any(array.dtype == np.float16 and not _is_finite(array) for array in found):
            return False  # the program computes in a wider format, which may hold numbers that overflow here
        self.nodes.append(node)
        self.values.update(zip(outputs, found, strict=True))
        kept = all(array.dtype.kind != "f" or self._is_exact(name, array) for name, array in given.items())
        for name, array in zip(outputs, found, strict=True):
            if array.dtype.kind != "f" or (exact and kept and self._fits(array)):
                self.exact.add(name)
        return True

    def _is_exact(self, name: str, array: Array) -> bool:
        return name in self.exact or (name in self.constants and self._fits(array))

    def _fits(self, array: Array) -> bool:
        """Return True if numbers are multiples of 1/64 with few bits."""
        scaled = array.astype(np.float64) * 64
        bits = _EXACT_BITS[self.dtype]
        return bool(np.all(np.isfinite(scaled) & (scaled == np.rint(scaled)) & (np.abs(scaled) < 2.0**bits)))

    def _computed(self, node: NodeProto, given: Mapping[str, Array]) -> list[Array] | None:
        graph = helper.make_graph(
            [node],
            "node",
            [_declared(name, array) for name, array in given.items()],
            [ValueInfoProto(name=name) for name in node.output],
        )
        made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=10)
        try:
            oracle = _session(made)  # raises an error for operators that the operator set lacks
            if node.op_type in _BY_EVALUATOR:
                oracle = ReferenceEvaluator(made)
            with np.errstate(all="ignore"):
                return [np.asarray(array) for array in oracle.run(None, dict(given))]
        except Exception:  # onnxruntime has no class for its refusals
            return None

    def model(self, outputs: Sequence[str] | None = None) -> ModelProto:
        """The graph; unread values are outputs, and some that are read too, in an order of their own."""
        read = {name for node in self.nodes for name in reads_of(node)}
        if outputs is None:
            made = [name for node in self.nodes for name in node.output if name in self.values]
            unread = [name for name in made if name not in read or self.rng.random() < 0.1]
            outputs = [str(name) for name in self.rng.permutation(unread)]
        used = read & set(self.constants)
        graph = helper.make_graph(
            self.nodes,
            "drawn",
            [_declared(name, array) for name, array in self.inputs.items()],
            [_declared(name, self.values[name]) for name in outputs],
            [numpy_helper.from_array(self.constants[name], name) for name in sorted(used)],
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=10)


def reads_of(node: NodeProto) -> set[str]:
    """The operands of a node, and the outer values read by graphs in its attributes."""
    inner = [each for attribute in node.attribute for each in attribute.g.node]
    return set(node.input).union(*(set(each.input) for each in inner))


def _largest(array: Array) -> float:
    """The largest finite number of floats."""
    usable = array[np.isfinite(array)] if array.dtype.kind == "f" else np.zeros(0)
    return float(np.abs(usable).max(initial=0.0))


def _is_finite(array: Array) -> bool:
    return array.dtype.kind != "f" or bool(np.isfinite(array).all())


def _declared(name: str, array: Array) -> ValueInfoProto:
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)


def _session(made: ModelProto) -> Any:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(made.SerializeToString(), options, providers=["CPUExecutionProvider"])


_ENDS = (np.nan, np.inf, -np.inf, -0.0)
_SPECIAL = {
    "fp32": (*_ENDS, 3.0e38, -3.0e38, 1e-40, 65504.0, 2.0**24 + 2, 4194304.5),
    "fp16": (*_ENDS, 60000.0, -60000.0, 2.0**-24),
    "bf16": (*_ENDS, 2.0**127, -(2.0**127), 2.0**-126),
}


def drawn(seed: int) -> tuple[GraphDraw, ModelProto]:
    """The graph of a seed: 1 to 3 inputs and 5 to 25 nodes."""
    from random_rare_steps import RARE
    from random_steps import STEPS

    rng = np.random.default_rng([80, seed])
    draw = GraphDraw(rng, setting(seed).dtype, int(rng.integers(13, 26)), bool(rng.random() < 0.15))
    for _ in range(draw.whole(1, 3)):
        shape = [draw.one_of(1, 2, 3, 5, 7, 8, 16, 33) for _ in range(draw.one_of(1, 2, 3, 4, 4))]
        while np.prod(shape) > LARGEST:
            shape = [(size + 1) // 2 for size in shape]
        kinds = (np.float32,) * 5 + (np.int64, np.int32, np.uint8, np.int8, np.bool_)
        array = draw.numbers(shape, draw.one_of(*kinds))
        if draw.special and array.dtype == np.float32:
            for _ in range(draw.whole(1, 4)):
                array.reshape(-1)[draw.whole(0, array.size - 1)] = draw.one_of(*_SPECIAL[draw.dtype])
        name = draw.input(array)
        if draw.special:
            draw.exact.discard(name)
    wanted = draw.whole(5, 25)
    for _ in range(200):
        if len(draw.nodes) >= wanted:
            break
        draw.one_of(*STEPS, *RARE)(draw)
    return draw, draw.model()
