"""The matrix engine's own steps from sums to bytes (docs/isa.md, INT8), if results may differ by one step.

The engine shifts a sum to 16 bits, multiplies it by a number of 16 bits and shifts again; both shifts round
down. Numbers and shifts are chosen here so that a sum times its scale is never more than ``MOST_WRONG`` steps
wrong before it is rounded. So bytes are those of ONNX, or off by one where the quotient is near a half. The
vector engine would need four or five passes over the sums.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from compiler.codegen.expr import Value
from compiler.codegen.kernel import Argument, Kernel
from compiler.codegen.slices.aligned import Aligned, aligned_bytes
from compiler.codegen.slices.tensors import BLOCK, DdrTensor
from compiler.graph import Array
from compiler.lowering.record import Work
from tx8isa.families.matrix import MAX_SHIFT
from tx8isa.numbers.division import round_up
from tx8isa.numbers.formats import Format

MOST_WRONG = 0.25
"""Largest error in steps before a result is rounded."""

_BYTES, _SHORTS = np.iinfo(np.int8), np.iinfo(np.int16)
_MOST_TERMS = 2**15
"""Products of bytes whose sum, and a bias of half of the range, fit 32 bits."""
ZEROS_BYTES = aligned_bytes(BLOCK, 1, Format.INT8)
"""Bytes of the weights of a product that adds nothing: for each map of a plane one channel."""


@dataclass(frozen=True)
class EngineChain:
    """Shifts of the sums; for each map an addend in int32 and a factor in int16.

    ``relu``: results below the zero point become the zero point. The engine then adds the zero point, so
    ``biases`` do not include it.
    """

    q1: int
    q0: int
    biases: Array
    scales: Array
    relu: bool
    zero: int

    @property
    def plain(self) -> bool:
        """True if the engine adds no zero point; GEMM cannot."""
        return not (self.relu and self.zero)

    def operands(self, at: ChainVectors, first: Value = 0) -> dict[str, Argument]:
        """Operands of the instruction that makes bytes of the sums of the maps from ``first``."""
        last: dict[str, Argument] = {"bias": at.biases + first * 4, "scale_p": at.scales + first * 2}
        last |= {"q1": self.q1, "q0": self.q0}
        if self.relu:
            last["relu"] = 1
        return last if self.plain else last | {"zp_out": self.zero & 0xFF}


@dataclass(frozen=True)
class ChainVectors:
    """Addresses of biases and scales of some maps, and of ``ZEROS_BYTES`` zeros."""

    biases: Value
    scales: Value
    zeros: Value


def engine_chain(work: Work) -> EngineChain | None:
    """The steps of a convolution whose bytes are off by at most one step; None if the error would be
    larger."""
    call, channels = work.spec, math.prod(work.spec.shape(1)[1:])
    if work.output.fmt is not Format.INT8 or call.attrs.get("exact", 1) or channels > _MOST_TERMS:
        return None
    zero, low, high = (call.integer(name) for name in ("y_zero", "low", "high"))
    relu = low > _BYTES.min
    if high < _BYTES.max or (relu and low != zero):
        return None
    maps = call.shape(1)[0]
    scale = np.broadcast_to(np.asarray(work.input(3).value, np.float64).reshape(-1), maps)
    bias = np.asarray(work.input(2).value, np.float64).reshape(-1) if work.has(2) else np.zeros(maps)
    if not (np.isfinite(scale).all() and (scale > 0).all()):
        return None
    if relu and zero == _BYTES.min:
        relu = False
    return _chain(scale, bias, relu, zero)


def _chain(scale: Array, bias: Array, relu: bool, zero: int) -> EngineChain | None:
    """Shifts as small as the range of a result allows, and numbers as large as 16 bits allow."""
    reach = 2 * -_BYTES.min if relu else -_BYTES.min + 1
    q1 = max(0, math.ceil(math.log2(reach / (float(scale.min()) * _SHORTS.max))))
    q0 = math.floor(math.log2(_SHORTS.max / (float(scale.max()) * 2.0**q1)))
    if q1 > MAX_SHIFT or not 1 <= q0 <= MAX_SHIFT:
        return None
    numbers = np.rint(np.ldexp(scale, q1 + q0))
    if numbers.min() < 1:
        return None
    found = np.ldexp(numbers, -q1 - q0)
    wrong = np.abs(found / scale - 1) * reach + found * (2.0**q1 + 1) / 2
    biases = bias + np.rint((0.5 + (0 if relu else zero)) / found) + (2**q1 >> 1)
    if wrong.max() > MOST_WRONG or np.abs(biases).max() >= 2.0**30:
        return None
    return EngineChain(q1, q0, biases.astype(np.int32), numbers.astype(np.int16), relu, zero)


def fits_instruction(chain: EngineChain, gemm: bool, maps: int) -> bool:
    """True if an instruction can end with the steps. Values have planes of 64 maps, the engine writes bytes
    in planes of 128, and GEMM adds no zero point."""
    return maps <= BLOCK and (chain.plain or not gemm)


def chained_slice(
    kernel: Kernel, chain: EngineChain, at: ChainVectors, sums: Aligned, result: Aligned
) -> None:
    """Convert sums in int32 to bytes, by a product with zeros for each plane of maps that starts from
    them."""
    for first in range(0, sums.channels, BLOCK):
        maps, plane = min(BLOCK, sums.channels - first), first // BLOCK
        kernel.emit(
            "ne.conv.int8",
            out=result.plane(plane),
            out_format="int8",
            shape=[*sums.shape[:3], 1],
            dst_shape=[*sums.shape[:3], maps],
            window=[1, 1, 1, 1],
            a=sums.plane(plane),
            w=at.zeros,
            psum=sums.plane(plane),
            psum_format="int32",
            **chain.operands(at, first),
        )


@dataclass(frozen=True)
class StoredChain:
    """The steps, and the vectors of all maps in DDR, followed by zeros."""

    steps: EngineChain
    biases: DdrTensor
    scales: DdrTensor

    def load(self, kernel: Kernel, first: Value, maps: int) -> ChainVectors:
        """Load the vectors of some maps."""
        zeros = kernel.buffer("zeros", ZEROS_BYTES)
        kernel.emit("td.memset.int8", dst=zeros, value=0, n=ZEROS_BYTES)
        biases, scales = (self._loaded(kernel, each, first, maps) for each in (self.biases, self.scales))
        return ChainVectors(biases, scales, zeros)

    def _loaded(self, kernel: Kernel, tensor: DdrTensor, first: Value, maps: int) -> Value:
        count = round_up(maps, BLOCK)
        target = kernel.buffer("chain", count * tensor.bytes_each)
        kernel.emit(f"rdma.{tensor.fmt.token}", dst=target, src=tensor.at(first), n=count)
        return target


def stored_chain(kernel: Kernel, steps: EngineChain) -> StoredChain:
    """The steps with their vectors as constants."""
    found = list[DdrTensor]()
    for values, fmt in ((steps.biases, Format.INT32), (steps.scales, Format.INT16)):
        data = np.concatenate([values, np.zeros(BLOCK, values.dtype)])
        found.append(DdrTensor(kernel.constant("chain_data", fmt, data).symbol, fmt, data.shape))
    return StoredChain(steps, *found)
