"""Rows brought to mean 0 and mean square 1, with sums by products of the matrix engine.

The matrix engine adds rows: a product with ones gives the sum of each row in several lanes. The TDMA repeats
these lanes to the width of a plane if necessary, and the plane for each plane of the rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from compiler.codegen.expr import Value
from compiler.codegen.kernel import Kernel
from compiler.codegen.slices.aligned import Aligned, aligned_bytes, slice_buffer, widened_slice
from compiler.codegen.slices.precision import engine_format, split
from compiler.codegen.slices.tensors import BLOCK
from compiler.codegen.slices.vector import Vector, convert, repeat_rows
from compiler.evaluation.sizes import here
from tx8isa.cost.busy import busy_cycles
from tx8isa.machine.description import Machine
from tx8isa.numbers.division import ceil_div
from tx8isa.numbers.formats import Format
from tx8isa.numbers.layouts import aligned_channels

from .centring import MOST_COLUMNS, CentringMatrix
from .lane_normalization import centrings

_FEWEST_LANES = 8
"""The width of the steps of the matrix engine."""
_MOST_ONES = 1 << 16
"""Most elements of the matrix of ones for a sum in all lanes of a plane."""


def table_bytes(channels: int, fmt: Format) -> int:
    """Upper bound on the bytes of the constants of ``RowMoments``, and of scale and shift."""
    stored = aligned_channels(channels, BLOCK)
    lanes = stored if _is_small(channels) else _few_lanes(channels)
    matrix = fmt.bits // 8 * stored * stored if fmt is not Format.FP32 and channels <= MOST_COLUMNS else 0
    return 4 * lanes * stored + max(matrix, 4 * lanes * stored) + 16 * stored


def _is_small(channels: int) -> bool:
    """True if a matrix of ones for sums in all lanes is small enough."""
    return channels * aligned_channels(channels, BLOCK) <= _MOST_ONES


def _few_lanes(channels: int) -> int:
    return BLOCK if channels * BLOCK <= _MOST_ONES else _FEWEST_LANES


class RowMoments:
    """Brings rows of one length to mean 0 and a sum of squares of 1; its constants are in the scratchpad.

    ``rows``: most rows of a slice; ``centred``: True if any rows lose their mean. If the matrix engine takes
    the rows and it saves time, one product with a matrix centres them, and the sum of squares is in every
    lane of a row. ``unit``: a power of two; the sum of squares becomes 1 / ``unit``.
    """

    def __init__(
        self, kernel: Kernel, rows: int, channels: int, fmt: Format, centred: bool, unit: float = 1.0
    ) -> None:
        self.kernel, self.rows, self.channels, self.fmt, self.unit = kernel, rows, channels, fmt, unit
        time = _Time(kernel.target.machine, here(rows), channels, fmt)
        self.matrix = CentringMatrix(kernel, channels, fmt) if centred and time.centres_at_once else None
        formats = [engine_format(fmt)] if centred and self.matrix is None else []
        self.sums = RowSums(kernel, channels, [*formats, Format.TF32], time.lanes, unit)
        self.starts: dict[float, Value | None] = {0.0: None}

    def prepare(self, epsilon: float) -> None:
        """Store the initial value of sums of squares, so that a root divides by the mean square + epsilon."""
        if epsilon not in self.starts:
            size = self.rows * aligned_channels(self.sums.lanes, BLOCK)
            start = self.starts[epsilon] = self.kernel.buffer("epsilon", 4 * size)
            self.kernel.emit("td.memset.fp32", dst=start, value=epsilon * self.channels * self.unit, n=size)

    def normalized(self, data: Aligned, epsilon: float, centred: bool, factor: float = 1.0) -> Aligned:
        """The rows in FP32, less their mean if ``centred``, over the root of the sum of their squares.

        The root of a sum of n squares is sqrt(n) times the root of their mean; ``factor`` or a scale corrects
        this.
        """
        kernel, rows = self.kernel, self._centred(data, centred)
        vector = Vector(kernel, Format.FP32, rows.elements)
        squares = slice_buffer(kernel, "squares", Format.FP32, rows.grid, rows.channels)
        vector.vv("mul", squares.base, rows.base, rows.base)
        scale = self.sums.of(_parts_of_squares(kernel, squares, self.fmt), self.starts[epsilon])
        per_row = self._per_row(scale)
        per_row.unary("rsqrt", scale.base, scale.base)
        if factor != 1.0:
            per_row.vs("mul", scale.base, scale.base, factor)
        vector.vv("mul", rows.base, rows.base, _repeated_for_planes(kernel, scale, rows).base)
        return rows

    def _centred(self, data: Aligned, centred: bool) -> Aligned:
        kernel = self.kernel
        if centred and self.matrix is not None:
            return self.matrix.centred(data)
        rows = widened_slice(kernel, data)
        for _ in range(centrings(self.fmt) if centred else 0):
            mean = self.sums.of(split(kernel, rows if self.fmt is Format.FP32 else data))
            self._per_row(mean).vs("mul", mean.base, mean.base, 1.0 / (self.channels * self.unit))
            beside = _repeated_for_planes(kernel, mean, rows)
            Vector(kernel, Format.FP32, rows.elements).vv("sub", rows.base, rows.base, beside.base)
        return rows

    def _per_row(self, sums: Aligned) -> Vector:
        return Vector(self.kernel, Format.FP32, sums.elements)


@dataclass(frozen=True)
class _Time:
    """Compares the time of methods for ``rows`` rows of ``channels`` numbers of ``fmt``."""

    machine: Machine
    rows: int
    channels: int
    fmt: Format

    @property
    def centres_at_once(self) -> bool:
        """True if one product centres rows faster than sums, means, copies of them and differences."""
        if self.fmt is Format.FP32 or self.channels > MOST_COLUMNS:
            return False
        vector = [self._vector(name, self.channels) for name in ("cvt.fp16.fp32", "sub.vv.fp32")]
        few = [self._product(BLOCK), self._vector("mul.vs.fp32", BLOCK), self._repeated()]
        return self._product(self.channels) < sum(map(self._taken, (*vector, *few)))

    @property
    def lanes(self) -> int:
        """Number of lanes in which the matrix engine gives a sum of squares."""
        channels = aligned_channels(self.channels, BLOCK)
        few = _few_lanes(self.channels)
        if channels <= BLOCK or not _is_small(self.channels):
            return min(channels, few)
        repeated = sum(map(self._taken, (self._product(few), self._repeated())))
        return channels if self._taken(self._product(channels)) < repeated else few

    def _taken(self, busy: float) -> float:
        """Cycles that another command adds to a series: of the engine, or of the issuing core if that takes
        longer."""
        return max(busy, self.machine.timing.issue.of("ct").value)

    def _product(self, columns: int) -> float:
        return busy_cycles(
            f"ne.gemm.{engine_format(self.fmt).token}", self.machine, m=self.rows, k=self.channels, n=columns
        )

    def _vector(self, name: str, columns: int) -> float:
        return busy_cycles(f"ct.{name}", self.machine, n=self.rows * aligned_channels(columns, BLOCK))

    def _repeated(self) -> float:
        planes = ceil_div(self.channels, BLOCK)
        size = self.rows * 4 * BLOCK
        return busy_cycles("td.gatherscatter", self.machine, n=size, src_iter0=planes, dst_iter0=planes)


def lanes_of_sums(machine: Machine, rows: int, channels: int, fmt: Format) -> int:
    """Number of copies of a sum of squares that ``RowMoments`` computes, side by side."""
    return _Time(machine, here(rows), channels, fmt).lanes


def _parts_of_squares(kernel: Kernel, squares: Aligned, fmt: Format) -> list[Aligned]:
    """Prepare squares for the matrix engine: one TF32 part is precise enough for a root that is rounded to 16
    bits."""
    if fmt is Format.FP32:
        return split(kernel, squares, squares=True)
    convert(kernel, squares.base, squares.base, squares.elements, Format.FP32, Format.TF32)
    return [squares.at(squares.base, Format.TF32)]


class RowSums:
    """Sums of rows in FP32, each in ``lanes`` lanes, by products with ones that are stored once for all rows.

    They are counted in ``unit``, a power of two.
    """

    def __init__(
        self, kernel: Kernel, channels: int, formats: Sequence[Format], lanes: int, unit: float
    ) -> None:
        self.kernel, self.channels, self.lanes, self.unit = kernel, channels, lanes, unit
        self.ones = {fmt: self._store_ones(fmt) for fmt in dict.fromkeys(formats)}

    def _store_ones(self, fmt: Format) -> Value:
        ones = self.kernel.buffer("ones", aligned_bytes(self.channels, self.lanes, fmt))
        self.kernel.emit(f"td.memset.{fmt.token}", dst=ones, value=self.unit, n=self.channels * self.lanes)
        return ones

    def of(self, parts: Sequence[Aligned], start: Value | None = None) -> Aligned:
        """The sums [rows, lanes] of the rows, over all parts, added to ``start``, which has that shape."""
        target = slice_buffer(self.kernel, "sums", Format.FP32, parts[0].grid, self.lanes)
        for part in parts:
            psum: dict[str, Value] = {} if start is None else {"psum": start}
            self.kernel.emit(
                f"ne.gemm.{part.fmt.token}",
                a=part.base,
                b=self.ones[part.fmt],
                out=target.base,
                m=part.grid.positions,
                k=self.channels,
                n=self.lanes,
                rt=1,
                out_format="fp32",
                **psum,
            )
            start = target.base
        return target


def _repeated_for_planes(kernel: Kernel, values: Aligned, like: Aligned) -> Aligned:
    """FP32 [rows, lanes] with one value for each row, repeated to a slice of the shape of ``like``."""
    if values.channels == aligned_channels(like.channels, BLOCK):
        return values
    wide = values if values.channels == BLOCK else _repeated_for_lanes(kernel, values)
    target = slice_buffer(kernel, "beside", Format.FP32, like.grid, like.channels)
    rows, plane = like.grid.positions, like.grid.positions * (4 * BLOCK)
    if like.planes:
        kernel.emit(
            "td.gatherscatter",
            dst=target.base,
            src0=wide.base,
            n=plane,
            src_stride0=0,
            src_iter0=like.planes,
            dst_stride0=plane,
            dst_iter0=like.planes,
        )
    if like.tail:
        kernel.emit(
            "td.gatherscatter",
            dst=target.plane(like.planes),
            src0=wide.base,
            n=4 * like.tail,
            src_stride0=4 * BLOCK,
            src_iter0=rows,
            dst_stride0=4 * like.tail,
            dst_iter0=rows,
        )
    return target


def _repeated_for_lanes(kernel: Kernel, values: Aligned) -> Aligned:
    """FP32 [rows, lanes] with one value for each row, repeated to all lanes of a plane."""
    wide = slice_buffer(kernel, "row", Format.FP32, values.grid, BLOCK)
    size, copies = 4 * values.channels, BLOCK // values.channels
    repeat_rows(kernel, wide.base, values.base, size, values.grid.positions, copies)
    return wide
