"""Weights and biases of the stages of a stack as contiguous runs of bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np

from compiler.codegen.expr import Value
from compiler.codegen.kernel import Kernel, Target
from compiler.codegen.phase import Constant
from compiler.codegen.slices.aligned import aligned_bytes
from compiler.codegen.slices.tensors import BLOCK, DdrTensor, Stretch
from compiler.codegen.slices.vector import WORD
from compiler.evaluation.sizes import always, here, largest, most
from compiler.graph import Array
from compiler.lowering.conv.layer import Kind
from compiler.lowering.conv.quantised.int8 import engine_stretches
from compiler.lowering.conv.weights import PackedWeights, Volume, packed_weights, weights_of, windows_of
from compiler.lowering.record import Work
from tx8isa.cost.busy import busy_cycles
from tx8isa.cost.rates import ddr_rate
from tx8isa.machine.description import Machine
from tx8isa.numbers.division import ceil_div, round_up
from tx8isa.numbers.formats import Format
from tx8isa.numbers.layouts import LINE_BYTES, Layout
from tx8isa.numbers.packing import pack
from tx8isa.numbers.rounding import rounded

from .byte_products import byte_weights, of_bytes, row_taps
from .stages import Stage
from .whole import Share


@dataclass(frozen=True)
class StackWeights:
    """The constants of some stages as one constant, and in the scratchpad from ``base``."""

    constant: Constant
    base: Value
    offsets: dict[str, list[int]]

    @property
    def run(self) -> DdrTensor:
        """The constant as a tensor in DDR."""
        return DdrTensor(self.constant.symbol, self.constant.fmt, (self.constant.size,))

    def load(self, kernel: Kernel) -> None:
        kernel.emit(f"rdma.{self.run.fmt.token}", dst=self.base, src=self.run.at(0), n=self.run.size)

    @property
    def addresses(self) -> dict[str, list[Value]]:
        """Addresses of the parts of each stage's weights, by the symbols of the results."""
        return {symbol: [self.base + at for at in offsets] for symbol, offsets in self.offsets.items()}


def weights_run(kernel: Kernel, order: Sequence[Stage]) -> StackWeights | None:
    """Room for the weights of these stages; None if there are none."""
    others = len(kernel.constants)
    parts = {stage.result.symbol: _packed(kernel, stage) for stage in order if stage.layer.kind.weighted}
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
        return np.concatenate([constant.compute() for constant in made])

    kernel.lazy_constant("weights", fmt, size, joined)
    return StackWeights(kernel.constants[-1], kernel.buffer("w", size * each), offsets)


def _packed(kernel: Kernel, stage: Stage) -> list[DdrTensor]:
    """The weights of a stage in the matrix engine's order, a tensor for each part."""
    layer, channels = stage.layer, stage.layer.groups.channels
    maps = Stretch(0, layer.groups.maps, 1)
    if layer.kind is Kind.DEPTHWISE:
        found = windows_of(kernel, stage.work, maps)
    elif of_bytes(stage):
        volumes = list[DdrTensor]()
        for part in engine_stretches(Stretch(0, channels, 1), layer.fmt):
            taps = row_taps(layer.geometry, part, layer.groups.maps, 1)
            tensor, count = byte_weights(kernel, stage, maps, part, taps)
            volumes += [tensor] * count
        return volumes
    else:
        packed = weights_of(kernel, stage.work, layer.groups, maps, channels)
        assert isinstance(packed, PackedWeights)
        found = packed
    return [tensor for tensor, _ in found.runs(Volume(0, 0, Stretch(0, channels, 1), 0))]


def weight_runs(
    kernel: Kernel, stage: Stage, maps: Stretch, stretches: Sequence[Stretch]
) -> Iterator[tuple[tuple[DdrTensor, Value], int]]:
    """A tile's loads of the weights of a stage, whose maps are divided into one block for each tile.

    For each run: a tensor of the size of a volume, this tile's first element, and the number of volumes.
    ``stretches``: the channels of the image in the engine's slices.
    """
    groups = stage.layer.groups
    if of_bytes(stage):
        for part in stretches:
            taps = row_taps(stage.layer.geometry, part, maps.size, None)
            tensor, count = byte_weights(kernel, stage, maps, part, taps)
            yield (tensor, kernel.tile * (count * tensor.size)), count
        return
    if stage.layer.channelwise:
        stretches = [Stretch(0, groups.channels, 1)]
        load: PackedWeights = windows_of(kernel, stage.work, maps)
    else:
        load = packed_weights(kernel, stage.work, groups, maps, stretches)
    for part in stretches:
        yield load.runs(Volume(0, kernel.tile, part, 0))[0], part.count


BIAS_PARTS = 3
"""Numbers in TF32 whose sum can be any FP32 number: 3 x 11 bits for 24."""
_MANY_BYTES = 16384
"""For at least this many bytes, a product writes a bias to all positions in less time than the TDMA engine,
though every tile loads three times as much."""
_SMALLEST = 2.0**-90
"""Numbers of at least this size have parts that are not subnormal."""


@dataclass(frozen=True)
class Bias:
    """The bias of a stage in the scratchpad: a number in FP32 for each channel.

    ``in_parts``: instead the right operand of a product, whose ``BIAS_PARTS`` rows in TF32 have that sum.
    ``run``: the beginning of the contiguous run that it is in.
    """

    base: Value
    in_parts: bool
    run: Value


@dataclass(frozen=True)
class Biases:
    """The biases of some stages, by the symbols of their results.

    ``ones``: the left operand of products with those in parts, for any number of positions; None if there
    are none.
    """

    found: dict[str, Bias]
    ones: Value | None = None


@dataclass(frozen=True)
class StoredBiases:
    """The biases of some stages in their stored form, contiguous in FP32.

    ``places``: by the symbol of a stage's result, the number at which its bias begins, and whether it is in
    parts.
    ``positions``: the most positions at which a product writes one of them. If it writes any, the last
    ``lines`` lines of ``data`` are ones.
    """

    data: Array
    places: dict[str, tuple[int, bool]]
    positions: int
    lines: int = 0


@dataclass(frozen=True)
class BiasRun:
    """Biases that are stored contiguously in DDR, and are in the scratchpad from ``base``."""

    stored: StoredBiases
    run: DdrTensor
    base: Value

    @property
    def ones(self) -> Value:
        """The address of the ones, if a product writes any of the biases."""
        return self.base + (self.stored.data.nbytes - self.stored.lines * LINE_BYTES)

    @property
    def biases(self) -> dict[str, Bias]:
        """The biases, keyed by the symbols of the stages' results."""
        places = self.stored.places.items()
        return {name: Bias(self.base + 4 * at, in_parts, self.base) for name, (at, in_parts) in places}


def repeating_cycles(machine: Machine, positions: int, channels: int, in_parts: bool) -> float:
    """Cycles of the instruction that repeats a bias at positions: a product, or a copy by the TDMA engine."""
    if in_parts:
        sizes = {"m": positions, "k": BIAS_PARTS, "n": channels, "out_format": int(Format.FP32)}
        return busy_cycles("ne.gemm.tf32", machine, **sizes)
    planes = ceil_div(channels, BLOCK)
    loops = {"src_iter0": positions, "src_iter1": planes, "dst_iter0": positions * planes}
    return busy_cycles("td.gatherscatter", machine, n=WORD * BLOCK, **loops)


def shared_biases(
    kernel: Kernel, order: Sequence[Stage], share_of: Callable[[Stage], Share]
) -> dict[str, Value]:
    """Load the biases of this tile's channels; their addresses by the symbols of the stages' results."""
    parts, places, offset = list[Array](), dict[str, int](), 0
    for stage in order:
        if stage.layer.bias and not of_bytes(stage):
            share, values = share_of(stage), np.asarray(stage.work.input(2).value, np.float32)
            part = np.zeros((kernel.target.tiles, round_up(share.width, BLOCK)), np.float32)
            part[: share.tiles, : share.width] = values.reshape(share.tiles, share.width)
            places[stage.result.symbol] = offset
            offset += 4 * part.shape[1]
            parts.append(part)
    if not parts:
        return {}
    data = np.concatenate(parts, axis=1)
    symbol = kernel.constant("bias_data", Format.FP32, data.reshape(-1)).symbol
    base, count = kernel.buffer("bias", offset), data.shape[1]
    source = DdrTensor(symbol, Format.FP32, (data.size,)).at(kernel.tile * count)
    kernel.emit("rdma.fp32", dst=base, src=source, n=count)
    return {name: base + at for name, at in places.items()}


def biases_of(kernel: Kernel, order: Sequence[Stage], most: int) -> Biases:
    """Load the biases of these stages. ``most``: rows of the result that are computed at a time."""
    return loaded_biases(kernel, bias_runs(kernel, stored_biases(kernel.target, order, most)))


def loaded_biases(kernel: Kernel, runs: Sequence[BiasRun], gathered: Sequence[BiasRun] = ()) -> Biases:
    """Load runs of biases, except the ``gathered`` ones, which arrive from other tiles."""
    for each in runs:
        kernel.emit(f"rdma.{each.run.fmt.token}", dst=each.base, src=each.run.at(0), n=each.run.size)
    found: dict[str, Bias] = {}
    for each in (*runs, *gathered):
        found |= each.biases
    positions = max((each.stored.positions for each in (*runs, *gathered)), default=0)
    loaded = max(runs, key=lambda each: each.stored.lines, default=None)
    return Biases(found, _ones(kernel, positions, loaded) if positions else None)


def bias_runs(kernel: Kernel, stored: StoredBiases) -> list[BiasRun]:
    """Room in the scratchpad for biases; none for no bias."""
    if not stored.places:
        return []
    symbol = kernel.constant("bias_data", Format.FP32, stored.data).symbol
    base = kernel.buffer("bias", stored.data.nbytes)
    return [BiasRun(stored, DdrTensor(symbol, Format.FP32, stored.data.shape), base)]


def stored_biases(target: Target, order: Sequence[Stage], most: int) -> StoredBiases:
    """The biases of these stages, which are constants. ``most`` as in ``biases_of``.

    All ones that a product needs are stored with them if tiles load them in less time than they issue a copy.
    """
    stored: list[Array] = [np.zeros(0, np.float32)]
    places: dict[str, tuple[int, bool]] = {}
    positions = 0
    for stage in order:
        if stage.layer.bias and not of_bytes(stage):
            values = np.asarray(stage.work.input(2).value, np.float32).reshape(-1)
            count = stage.rows.most(most) * stage.layer.geometry.columns
            few = 4 * here(count) * values.size < _MANY_BYTES or stage.epilogue.residual is not None
            operand = None if few else _right_operand(stage.work)
            places[stage.result.symbol] = sum(each.size for each in stored), operand is not None
            data = values if operand is None else operand
            stored += [data, np.zeros(-data.size % BLOCK, np.float32)]
            positions = largest(positions, count if operand is not None else 0)
    lines = _stored_lines(target, positions)
    stored.append(np.ones(lines * LINE_BYTES // WORD, np.float32))
    return StoredBiases(np.concatenate(stored), places, positions, lines)


def _stored_lines(target: Target, positions: int) -> int:
    """The lines of ones that are stored for products at ``positions``: all, or one that is repeated."""
    if not most(positions):
        return 0
    lines, timing = _lines_of_ones(most(positions)), target.machine.timing
    loading = target.tiles * lines * LINE_BYTES / ddr_rate(target.machine)
    return lines if loading < timing.issue.of("tdma").value + timing.core.line.value else 1


def _lines_of_ones(positions: int) -> int:
    """Lines with a one for each part of a bias at each position."""
    return ceil_div(aligned_bytes(positions, BIAS_PARTS, Format.TF32), LINE_BYTES)


def _ones(kernel: Kernel, positions: int, loaded: BiasRun | None) -> Value:
    """A one for each part of a bias at each position.

    ``loaded``: the biases with the most lines of ones. One line is repeated, unless the lines are enough;
    a stack moves data anyway, so this needs no further kind of command. Without lines the ones are written.
    """
    lines, stored = _lines_of_ones(positions), loaded.stored.lines if loaded is not None else 0
    if loaded is not None and always(lines <= stored):
        return loaded.ones
    ones = kernel.buffer("ones", lines * LINE_BYTES)
    if loaded is None or not stored:
        n = aligned_bytes(positions, BIAS_PARTS, Format.TF32) * 8 // Format.TF32.bits
        kernel.emit("td.memset.tf32", dst=ones, value=1.0, n=n)
    else:
        loops = {"src_stride0": 0, "src_iter0": lines, "dst_stride0": LINE_BYTES, "dst_iter0": lines}
        kernel.emit("td.gatherscatter", dst=ones, src0=loaded.ones, n=LINE_BYTES, **loops)
    return ones


def tf32_parts(values: Array) -> list[Array] | None:
    """Numbers in TF32 with exactly these sums, added in this order to zero; None where there are none."""
    if not np.isfinite(values).all() or np.signbit(values[values == 0]).any():
        return None
    if (np.abs(values[values != 0]) < _SMALLEST).any():
        return None
    left, parts = values, list[Array]()
    for _ in range(BIAS_PARTS):
        parts.append(rounded(left, Format.TF32).astype(np.float32))
        left = left - parts[-1]
    return None if left.any() or not all(np.isfinite(part).all() for part in parts) else parts


_OPERANDS: WeakKeyDictionary[Work, Array | None] = WeakKeyDictionary()
"""The operands of works; cached, since a work is a stage of many stacks."""


def _right_operand(work: Work) -> Array | None:
    """The parts of a bias as rows of an aligned matrix; None where there are none."""
    if work not in _OPERANDS:
        parts = tf32_parts(np.asarray(work.input(2).value, np.float32).reshape(-1))
        packed = None if parts is None else pack(np.stack(parts), Format.FP32, Layout.CX).view(np.float32)
        _OPERANDS[work] = packed
    return _OPERANDS[work]
