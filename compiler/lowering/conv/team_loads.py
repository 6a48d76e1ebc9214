"""Loads by teams in a convolution: the weights of the same maps, the image of the same rows.

First the loads of each tile's parts of shared weights begin. Then all tiles meet, after which earlier phases
are complete, and the loads of parts of a shared image follow. The copies to other tiles start; meanwhile each
tile loads its own data. When all copies have arrived, the tiles continue.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from compiler.codegen.expr import Value, minimum
from compiler.codegen.kernel import Kernel
from compiler.codegen.slices.aligned import Aligned, Place, slice_buffer, stored_elements
from compiler.codegen.slices.rates import rates_of
from compiler.codegen.slices.tensors import BLOCK, DdrTensor, dma_loops
from compiler.codegen.slices.windows import RowBlock
from compiler.codegen.teams.gather import Gather, TeamPart, enter, meet_all
from compiler.codegen.teams.team import Team, TileGrid, send
from compiler.dialect.planes import image_bytes
from compiler.evaluation.sizes import ever
from tx8isa.numbers.division import ceil_div

from .cost import weights_before_meeting
from .maps import MapsOfTile
from .quantised.int8 import engine_parts
from .slice import ConvProblem, load_image


@dataclass(frozen=True)
class Early:
    """Data that is loaded before the loops: the image, or rows of it."""

    image: Value = 0
    block: RowBlock | None = None
    data: list[Aligned] | None = None


def only_slice(kernel: Kernel, problem: ConvProblem) -> Early:
    """The tile's rows, if they are one slice."""
    grid = problem.grid
    shards = problem.images, problem.rows, problem.columns
    if grid is None or any(ever(shard.slice_count > 1) for shard in shards):
        return Early()
    image = kernel.let(problem.images.clamped_begin)
    begin, count = kernel.let(problem.rows.clamped_begin), kernel.let(grid.height)
    return Early(
        image,
        problem.block(
            kernel, (begin, count), (kernel.let(problem.columns.clamped_begin), kernel.let(grid.row))
        ),
    )


def load_by_teams(
    kernel: Kernel, problem: ConvProblem, jobs: list[MapsOfTile], grid: TileGrid, early: Early
) -> Early:
    """Load data that several tiles need by teams; all tiles take part."""
    with kernel.registers.scope():
        if problem.plan.image_by_team:
            return _with_shared_image(kernel, problem, jobs, grid, early)
        return _with_shared_weights(kernel, problem, jobs, _with_same_maps(kernel, grid), early)


def _with_same_maps(kernel: Kernel, grid: TileGrid) -> Team:
    """The maps are the last axis."""
    return grid.team(kernel, *range(len(grid.parts) - 1))


def _with_shared_weights(
    kernel: Kernel, problem: ConvProblem, jobs: list[MapsOfTile], team: Team, early: Early
) -> Early:
    gathers = [gather for job in jobs for gather in job.gathers(team)]
    enter(kernel, *(gather.target for gather in gathers))
    if early.block is not None:
        data = load_image(kernel, problem, early.image, early.block, 0, problem.layer.groups.channels)
        early = replace(early, data=data)
    for gather in gathers:
        gather.send()
    _begin_sums(jobs, early)
    meet_all(kernel, gathers)
    return early


def _with_shared_image(
    kernel: Kernel, problem: ConvProblem, jobs: list[MapsOfTile], grid: TileGrid, early: Early
) -> Early:
    block, source = early.block, problem.work.input(0)
    assert block is not None
    target = slice_buffer(kernel, "x", source.fmt, block.input, source.shape[-1])
    team = grid.team(kernel, len(grid.parts) - 1)
    gathers: list[TeamPart] = []
    first = 0.0
    if problem.plan.weights_by_team:
        weights_team = _with_same_maps(kernel, grid)
        gathers = [gather for job in jobs for gather in job.gathers(weights_team)]
    else:
        addend = problem.layer.residual and not problem.addend_is_early(kernel)
        first = weights_before_meeting(problem.layer, problem.plan, addend, rates_of(kernel.target.machine))
        _load_weights(jobs, 0, first)
    enter(kernel, target.base, *(gather.target for gather in gathers))
    image = _image_part(kernel, problem, team, early.image, block, target)
    for gather in gathers:
        gather.send()
    kernel.emit("ncc.wait")
    image.send()
    if not problem.plan.weights_by_team:
        _load_weights(jobs, first, 1)
    _begin_sums(jobs, early)
    meet_all(kernel, [*gathers, image])
    return replace(early, data=engine_parts(kernel, target))


def _image_part(
    kernel: Kernel, problem: ConvProblem, team: Team, image: Value, block: RowBlock, target: Aligned
) -> TeamPart:
    source = problem.work.input(0)
    if problem.plan.row_parts > 1:
        return _RowsPart(kernel, team, source, block.source(image), target)
    size = image_bytes(math.prod(source.shape[1:-1]), source.shape[-1], source.fmt.bits)
    first = image * (size // source.bytes_each)
    return Gather.loaded(kernel, team, (source, first, stored_elements(source)), target.base)


class _RowsPart:
    """Some rows of a blocked image, to be at ``target`` in every tile of a team.

    Each tile loads equally many planes. If there are fewer planes than tiles it loads an equal part of one.
    Images with skipped rows are loaded in whole planes only.
    """

    def __init__(self, kernel: Kernel, team: Team, source: DdrTensor, at: Place, target: Aligned) -> None:
        self.kernel, self.team, self.rows, self.target = kernel, team, target, target.base
        planes = source.shape[-1] // BLOCK
        pieces = max(team.size // planes, 1)
        self.planes = max(planes // team.size, 1)
        self.length = ceil_div(target.grid.room * target.grid.width, pieces)
        self.plane = kernel.let(team.member // pieces * self.planes)
        self.begin = kernel.let(team.member % pieces * self.length)
        self.staged = kernel.buffer("part", self.planes * self.length * BLOCK * source.bytes_each)
        height = math.prod(source.shape[1:-1])
        image = image_bytes(height, source.shape[-1], source.fmt.bits) // source.bytes_each
        position = self.plane * height + at.position + self.begin
        first = at.image * image + position * BLOCK
        with kernel.if_below(self.begin, self.rows.grid.positions):
            if at.row_step > 1:
                row, step = target.grid.width * BLOCK, at.row_step * target.grid.width * BLOCK
                loops = dma_loops((height * BLOCK, step, 1), (self.planes, target.grid.height, row))
            else:
                loops = dma_loops((height * BLOCK, 1), (self.planes, self._count * BLOCK))
            kernel.emit(f"rdma.{source.fmt.token}", dst=self.staged, src=source.at(first), **loops)

    @property
    def _count(self) -> Value:
        """Positions of each plane."""
        return minimum(self.length, self.rows.grid.positions - self.begin)

    def send(self) -> None:
        """Start the copies; the part must have arrived in the scratchpad."""
        each = BLOCK * self.rows.fmt.bits // 8
        with self.kernel.if_below(self.begin, self.rows.grid.positions):
            place = self.plane * self.rows.grid.positions + self.begin
            size = self._count * (self.planes * each)
            send(self.kernel, self.team, self.staged, self.target + place * each, size)


def _load_weights(jobs: list[MapsOfTile], begin: float, end: float) -> None:
    for job in jobs:
        job.load_weights(begin, end)


def _begin_sums(jobs: list[MapsOfTile], early: Early) -> None:
    if early.block is not None:
        for job in jobs:
            job.begin_sums(early.image, early.block)
