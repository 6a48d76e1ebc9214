"""Compare simulated cycles of a decoder's block at one token with weights in FP16 and in few bits.

    python benchmarks/few_bits.py [WIDTH INNER]
    python benchmarks/summary.py few_bits           puts the table into docs/benchmarks.md

The block is 4096 wide as in models of 7 billion weights: root mean square normalizations, attention of 32
heads over the keys and values of 256 tokens, and a gated product of 11008 columns. Weights of few bits are
MatMulNBits of com.microsoft, as onnxruntime's quantiser writes them.
"""

from __future__ import annotations

import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from _report import promise, tabulate
from schedule import ROOT, Run, compiled, simulated

WIDTH, INNER, HEAD, PAST = 4096, 11008, 128, 256
MOST = 0.4
"""Cycles with weights of 4 bits, as a multiple of those in FP16."""


@dataclass(frozen=True)
class Weights:
    """The storage of weights: in FP16, or in ``bits`` bits with a scale for ``block`` rows of a column."""

    name: str
    bits: int = 16
    block: int = 0
    zeros: bool = False
    """True if blocks have zero points."""
    judged: bool = False


KINDS = (
    Weights("fp16"),
    Weights("8 bits, blocks of 32", 8, 32),
    Weights("4 bits, blocks of 32", 4, 32, judged=True),
    Weights("4 bits, blocks of 128", 4, 128, judged=True),
    Weights("4 bits, blocks of 32, zero points", 4, 32, zeros=True),
    Weights("2 bits, blocks of 64", 2, 64),
)


@dataclass
class Block:
    """The graph of a block as it grows."""

    kind: Weights
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    constants: list[onnx.TensorProto] = field(default_factory=list)
    random: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0))

    def add(self, op: str, *inputs: str, domain: str = "", **attrs: Any) -> str:
        """Add a node; returns the name of its result."""
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [name], name=name, domain=domain, **attrs))
        return name

    def constant(self, value: np.ndarray[Any, Any]) -> str:
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(value, name))
        return name

    def product(self, x: str, inner: int, columns: int) -> str:
        """A product with seeded weights."""
        kind, random = self.kind, self.random
        if kind.bits == 16:
            weights = random.integers(-2048, 2048, (inner, columns)) * (inner**-0.5 / 1024)
            return self.add("MatMul", x, self.constant(weights.astype(np.float16)))
        blocks = inner // kind.block
        size = kind.block * kind.bits // 8
        scale = random.uniform(1, 2, columns * blocks) * inner**-0.5 / (1 << (kind.bits - 1))
        operands = [
            self.constant(random.integers(0, 256, (columns, blocks, size), np.uint8)),
            self.constant(scale.astype(np.float16)),
        ]
        if kind.zeros:
            operands.append(self.constant(random.integers(0, 256, columns * -(-blocks // 2), np.uint8)))
        sizes = {"K": inner, "N": columns, "bits": kind.bits, "block_size": kind.block}
        return self.add("MatMulNBits", x, *operands, domain="com.microsoft", **sizes)

    def normalized(self, x: str, width: int) -> str:
        scale = self.constant(np.ones(width, np.float16))
        return self.add("SimplifiedLayerNormalization", x, scale, epsilon=1e-5, axis=-1)

    def heads(self, x: str, width: int) -> str:
        """[1, 1, width] as heads of one token."""
        shape = self.constant(np.array([1, 1, width // HEAD, HEAD]))
        return self.add("Transpose", self.add("Reshape", x, shape), perm=[0, 2, 1, 3])

    def attention(self, x: str, width: int) -> str:
        """Attention over the cached tokens and x."""
        q, k, v = (self.heads(self.product(x, width, width), width) for _ in range(3))
        keys = self.add("Concat", "keys", k, axis=2)
        values = self.add("Concat", "values", v, axis=2)
        scores = self.add("MatMul", q, self.add("Transpose", keys, perm=[0, 1, 3, 2]))
        scaled = self.add("Mul", scores, self.constant(np.float16(HEAD**-0.5).reshape(())))
        mixed = self.add("MatMul", self.add("Softmax", scaled, axis=-1), values)
        merged = self.add(
            "Reshape", self.add("Transpose", mixed, perm=[0, 2, 1, 3]), self.constant(np.array([1, 1, width]))
        )
        return self.product(merged, width, width)

    def gated(self, x: str, width: int, inner: int) -> str:
        gate, up = (self.product(x, width, inner) for _ in range(2))
        swish = self.add("Mul", gate, self.add("Sigmoid", gate))
        return self.product(self.add("Mul", swish, up), inner, width)


def model(kind: Weights, width: int, inner: int) -> onnx.ModelProto:
    """The block of a decoder at one token."""
    block = Block(kind)
    attended = block.add("Add", "x", block.attention(block.normalized("x", width), width))
    result = block.add("Add", attended, block.gated(block.normalized(attended, width), width, inner))
    past = [1, width // HEAD, PAST - 1, HEAD]
    ends = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT16, shape)
        for name, shape in (("x", [1, 1, width]), ("keys", past), ("values", past), (result, [1, 1, width]))
    ]
    graph = helper.make_graph(block.nodes, "block", ends[:3], ends[3:], block.constants)
    versions = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=versions, ir_version=9)


def measured(kind: Weights, width: int, inner: int) -> Run:
    """A run of the program with these weights."""
    with tempfile.TemporaryDirectory() as made:
        path = Path(made) / "block.onnx"
        onnx.save(model(kind, width, inner), path)
        return simulated(compiled(ROOT, path, "fp16", Path(made) / "out"))


def main() -> int:
    """Measure all kinds; the others are compared with the first."""
    width, inner = (int(text) for text in sys.argv[1:3]) if len(sys.argv) > 2 else (WIDTH, INNER)
    lines, first = [], None
    for kind in KINDS:
        found = measured(kind, width, inner)
        first = first or found
        ratio = found.cycles / first.cycles
        share = found.moved / 150e9 / (found.cycles / 1e9)
        lines.append(
            (kind.name, f"{found.cycles:,.0f}", f"{ratio:.2f}", f"{found.moved / 1e6:.1f}", f"{share:.0%}")
        )
        print(*lines[-1], flush=True)
        if kind.judged:
            against = f"{first.cycles:,.0f} cycles in fp16"
            promise(f"a block at one token, {kind.name}", ratio, "times", at_most=MOST, against=against)
    tabulate(("weights", "cycles", "times fp16", "DDR MB", "of DDR's rate"), lines)
    return 0


if __name__ == "__main__":
    sys.exit(main())
