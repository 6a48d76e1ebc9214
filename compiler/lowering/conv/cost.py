"""A rough estimate of the cycles of a plan, by which the search gets the best candidates first."""

from __future__ import annotations

from compiler.codegen.slices.precision import part_count
from compiler.codegen.slices.rates import Rates
from compiler.codegen.slices.tensors import BLOCK
from tx8isa.numbers.division import ceil_div
from tx8isa.numbers.formats import Format
from tx8isa.numbers.layouts import aligned_channels

from .layer import ConvLayer, Kind
from .plan import OWN, ConvPlan, layer_for, narrowed, slice_counts


def cost(layer: ConvLayer, plan: ConvPlan, rates: Rates) -> float:
    """Estimate the cycles of a phase: the busiest engine, plus work of other engines that overlaps with no
    slice."""
    passes, blocks = slice_counts(layer, plan)
    layer = narrowed(layer_for(layer, plan), plan.columns)
    weight_loads = blocks if plan.keep == "weights" or blocks == 1 else blocks * passes
    image_loads = passes if plan.keep == "rows" else passes * blocks
    image, weights, result = slice_traffic(layer, plan)
    slices = passes * blocks
    loads = image * image_loads, weights * weight_loads
    read = [plan.tiles * loads[0], plan.tiles * loads[1]]
    if plan.image_by_team:
        read[0] //= plan.map_parts
    if plan.weights_by_team:
        read[1] //= plan.tiles // plan.map_parts
    meeting = _team_cycles(plan, loads, read, passes, rates) if plan.team_loads != OWN else 0.0
    moved = sum(read) + plan.tiles * result * slices
    run = max(rates.run, plan.tiles * rates.ddr_run)
    memory = max(moved / plan.tiles / rates.load, moved / rates.ddr) + _runs(layer, plan) * slices * run
    times = (memory, slices * _products(layer, plan, rates), slices * _vector(layer, plan) / rates.vector)
    issue = rates.issue * (4 * slices + 3 * weight_loads)
    busiest = max(*times, issue)
    return busiest + max(0, sum(times) - busiest) / slices + meeting


def _team_cycles(plan: ConvPlan, loads: tuple[int, int], read: list[int], passes: int, rates: Rates) -> float:
    """Cycles that loads by teams add to a phase: of copies that overlap with no load."""
    copies = copy_cycles(plan, loads, rates) + rates.send * (plan.image_by_team + plan.weights_by_team)
    meanwhile = 0 if plan.image_by_team else read[0]
    meanwhile += 0 if plan.weights_by_team else read[1]
    if not plan.image_by_team and passes > 1:
        meanwhile = 0
    return rates.meeting + max(0.0, copies - meanwhile / rates.ddr)


def copy_cycles(plan: ConvPlan, loads: tuple[int, int], rates: Rates) -> float:
    """Cycles of the copies between tiles, without their start; ``loads``: bytes of image and weights of a
    slice."""
    shared = loads[0] * plan.image_by_team + loads[1] * plan.weights_by_team
    return rates.copy * (plan.image_by_team + plan.weights_by_team) + shared / rates.shared_link


def weights_before_meeting(layer: ConvLayer, plan: ConvPlan, addend: bool, rates: Rates) -> float:
    """The part, from 0 to 1, of its weights that a tile loads before the tiles load an image together.

    This part is loaded while other tiles finish the phase before. The rest is loaded while the image is being
    sent, and the tensor that is added to the result too if there is an ``addend``.
    """
    layer = layer_for(layer, plan)
    image, weights, result = slice_traffic(layer, plan)
    rest = copy_cycles(plan, (image, 0), rates) * rates.ddr / plan.tiles - (result // 2 if addend else 0)
    return min(1.0, max(0.0, 1 - rest / weights))


def slice_traffic(layer: ConvLayer, plan: ConvPlan) -> tuple[int, int, int]:
    """DDR bytes of a slice: image, weights, and the result with its addend."""
    geometry, each = layer.geometry, layer.fmt.bits // 8
    inputs = plan.maps if layer.channelwise else layer.groups.channels
    image = geometry.input_rows(plan.rows) * geometry.width * aligned_channels(inputs, BLOCK) * each
    per_map = layer.taps * (1 if layer.channelwise else aligned_channels(inputs, BLOCK))
    result = plan.rows * geometry.columns * aligned_channels(plan.maps, BLOCK) * layer.result_fmt.bits // 8
    return image, per_map * plan.maps * each * part_count(layer.fmt), result * (1 + layer.residual)


def _runs(layer: ConvLayer, plan: ConvPlan) -> int:
    """Number of short runs of DDR in a slice; each costs more than its bytes."""
    results = plan.rows * layer.geometry.columns * (1 + layer.residual)
    if layer.blocked:
        return results if plan.maps < min(BLOCK, layer.groups.maps) else 0
    return results * ceil_div(plan.maps, BLOCK) // 2


def _products(layer: ConvLayer, plan: ConvPlan, rates: Rates) -> float:
    """Cycles of the matrix engine for a slice."""
    rows = plan.rows * layer.geometry.columns
    if layer.kind is Kind.POOL:
        return 0
    if layer.kind is Kind.DEPTHWISE:
        _, _, n = rates.array
        return rates.products(layer.fmt, rows, layer.taps, plan.maps * n)
    return rates.products(layer.fmt, rows, layer.taps * layer.groups.channels, plan.maps)


_REQUANTISING = 5.0
"""Number of instructions that requantise sums."""


def _vector(layer: ConvLayer, plan: ConvPlan) -> int:
    """Elements that the vector engine processes for a slice, counted as FP32 elements."""
    elements = plan.rows * layer.geometry.columns * aligned_channels(plan.maps, BLOCK)
    passes = layer.passes / 2 if layer.engine_rounds else layer.passes + 1.0
    if layer.fmt is Format.INT8:
        passes = _REQUANTISING + layer.passes
    if layer.kind is Kind.POOL:
        passes += layer.taps / (2 if layer.engine_rounds else 1)
    return int(elements * (passes + 2 * layer.residual))
