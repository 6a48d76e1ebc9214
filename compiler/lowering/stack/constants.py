"""Weights and biases of the stages of a stack as runs of bytes, each behind the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from compiler.codegen.expr import Value
from compiler.codegen.kernel import Kernel
from compiler.codegen.slices.tensors import BLOCK, DdrTensor, Stretch
from compiler.graph import Array
from compiler.lowering.conv.layer import Kind
from compiler.lowering.conv.weights import PackedWeights, Volume, weights_of, windows_of
from tx8isa.numbers.division import round_up
from tx8isa.numbers.formats import Format

from .stages import Stage


@dataclass(frozen=True)
class StackWeights:
    """Those of some stages: behind each other in DDR, and in the scratchpad from ``base`` on."""

    run: DdrTensor
    base: Value
    offsets: dict[str, list[int]]

    def load(self, kernel: Kernel) -> None:
        kernel.emit(f"rdma.{self.run.fmt.token}", dst=self.base, src=self.run.at(0), n=self.run.size)

    @property
    def addresses(self) -> dict[str, list[Value]]:
        """Where the parts of the weights of each stage are, by the symbols of their results."""
        return {symbol: [self.base + at for at in offsets] for symbol, offsets in self.offsets.items()}


def weights_run(kernel: Kernel, order: Sequence[Stage]) -> StackWeights | None:
    """Room for the weights of these stages; None if there are none."""
    others = len(kernel.constants)
    parts = {stage.result.symbol: _packed(kernel, stage) for stage in order if stage.work.op == "Conv"}
    made = kernel.constants[others:]
    if not made:
        return None
    del kernel.constants[others:]
    fmt, each = made[0].fmt, made[0].fmt.bits // 8
    offsets: dict[str, list[int]] = {}
    size = 0
    for symbol, tensors in parts.items():
        offsets[symbol] = []
        for tensor in tensors:
            offsets[symbol].append(size * each)
            size += tensor.size

    def joined() -> Array:
        return np.concatenate([constant.data for constant in made])

    run = DdrTensor(kernel.lazy_constant("weights", fmt, size, joined).symbol, fmt, (size,))
    return StackWeights(run, kernel.buffer("w", size * each), offsets)


def _packed(kernel: Kernel, stage: Stage) -> list[DdrTensor]:
    """The weights of a stage as the matrix engine takes them, a tensor for each part."""
    layer, channels = stage.layer, stage.layer.groups.channels
    maps = Stretch(0, layer.groups.maps, 1)
    if layer.kind is Kind.DEPTHWISE:
        found = windows_of(kernel, stage.work, maps)
    else:
        packed = weights_of(kernel, stage.work, layer.groups, maps, channels)
        assert isinstance(packed, PackedWeights)
        found = packed
    return [tensor for tensor, _ in found.runs(Volume(0, 0, Stretch(0, channels, 1), 0))]


def biases_of(kernel: Kernel, order: Sequence[Stage]) -> dict[str, Value]:
    """Load the biases of these stages as one vector in FP32: where each begins."""
    vectors: list[Array] = []
    offsets: dict[str, int] = {}
    for stage in order:
        if stage.layer.bias:
            values = np.asarray(stage.work.input(2).value, np.float32).reshape(-1)
            offsets[stage.result.symbol] = sum(vector.size for vector in vectors)
            vectors.append(np.pad(values, (0, round_up(values.size, BLOCK) - values.size)))
    if not vectors:
        return {}
    data = np.concatenate(vectors)
    symbol, base = (
        kernel.constant("bias_data", Format.FP32, data).symbol,
        kernel.buffer("bias", 4 * data.size),
    )
    kernel.emit("rdma.fp32", dst=base, src=DdrTensor(symbol, Format.FP32, data.shape).at(0), n=data.size)
    return {name: base + 4 * offset for name, offset in offsets.items()}
