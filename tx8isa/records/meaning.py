"""The kinds of meanings. The emulator has a family of kernels for each; a record supplies the small body.

Bodies get operand elements widened to binary64 and return binary64; the kernel rounds once to the format.
Bodies are plain Python over ``primitives`` and ``elementary``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from tx8isa.numbers.formats import Format, Rounding


class Form(Enum):
    """The form of a vector instruction's second operand (docs/isa.md, Vector forms)."""

    V = "v"
    VV = "vv"
    VS = "vs"
    VUV = "vuv"
    VUV_LOOP = "vuv_loop"


@dataclass(frozen=True, slots=True)
class Elementwise:
    """``dst[i] = round(body(src0[i][, src1[...]]))``."""

    body: Callable[..., float]
    form: Form
    error: Callable[[float, float, float], float] | None = None
    """Error of the binary64 ``body`` result with the right sign, for rounding modes other than nearest."""
    single: bool = False
    """The body may be evaluated in binary32, with the same result after the one rounding. Not for TF32, whose
    subnormal products have more bits than binary32 keeps there."""
    usual: Callable[[float], float] | None = None
    """A branch-free form of a body of one element, for NaN and operands below ``seldom`` in magnitude."""
    seldom: float = 0.0
    binary32: bool = False
    """The results of the body are binary32 numbers."""
    exact: Callable[[float], bool] | None = None
    """Tests whether the result of a body of one element is exact, or a pole; None if it always is."""
    down: Callable[[float, float], float] | None = None
    """The body in mode ``rdn``, where exact zero sums have another sign; None for ``body`` itself."""

    def body_in(self, mode: int) -> Callable[..., float]:
        """The body in one rounding mode."""
        return self.body if mode != Rounding.RDN or self.down is None else self.down


@dataclass(frozen=True, slots=True)
class Convert:
    """``dst[i]`` = ``src[i]`` in another format."""

    source: Format
    target: Format
    zero_point: bool
    """``src[i] - zero`` is converted (INT8 sources)."""


@dataclass(frozen=True, slots=True)
class Reduction:
    """Fold of the elements of one dimension (or window), in ascending index order, in binary32."""

    start: float
    step: Callable[[float, float], float]
    """(accumulator, element) -> accumulator, rounded to binary32. At most one operation on them, so that it
    may be done in binary32: 53 bits are enough for the binary64 result to be rounded a second time."""
    finish: Callable[[float, float], float] | None = None
    """(accumulator, number of elements) -> binary64 value that is rounded once to the format; None: the
    accumulator is."""
    error: Callable[[float, float, float], float] | None = None
    """(accumulator, element, binary64 step) -> rounding error of the step; None if it is exact."""
    exact: Callable[[float, float], bool] | None = None
    """Tests whether ``finish`` is exact for finite operands; None if it always is."""


@dataclass(frozen=True, slots=True)
class Reduce:
    """A reduction over ``dims`` of an aligned NHWC tensor (docs/isa.md, Reductions)."""

    fold: Reduction


@dataclass(frozen=True, slots=True)
class Pool:
    """A reduction over windows of an aligned NHWC tensor (docs/isa.md, Pooling)."""

    fold: Reduction
    outside: bool
    """Positions outside the input take part as zeros (avg and sum); otherwise they are ignored."""
    indexed: bool = False
    """A second result holds the place ky * Kx + kx of each value in its window."""


@dataclass(frozen=True, slots=True)
class Unpool:
    """The values of an aligned tensor written back to the windows they came from (docs/isa.md, Unpool)."""

    spread: Reduction | None
    """Combines the values of windows that overlap at a position, in scan order. None: an index tensor gives
    each value one place of its window, and later values replace earlier ones."""


@dataclass(frozen=True, slots=True)
class Resize:
    """Linear interpolation along W, then along H, of an aligned NHWC tensor.

    Each result element has fixed-point coordinates with 16 fractional bits. The neighbour beyond the last row
    or column is that row or column.
    """

    sample: Callable[[int, int, int], int]
    """(position in the result, scale operand, source extent) -> coordinate, at most extent - 1."""
    blend: Callable[[float, float, float], float]
    """(value, next value, weight of the next): done in binary32, every operation rounded."""


@dataclass(frozen=True, slots=True)
class Move:
    """Compact to compact: every element of the result is one element of the source.

    ``source(i, j, k, m, n, h, w, c)`` gives, for the result element at coordinates (i, j, k, m) of the
    result's own stored order, the flat index of the source element in the source's stored order; n, h, w, c
    is the source shape operand. It is affine in j, k and m. The result's stored extents are ``dst_shape``,
    but N, C, H, W when the result is NCHW (``channels_first``).
    """

    source: Callable[..., int]
    channels_first: bool = False


@dataclass(frozen=True, slots=True)
class Unfold:
    """Positions of an image, one place of the window after another, as an aligned tensor.

    Position (ky * Kx + kx, oh * OW + ow) of the result is position (oh * Sy + ky - top, ow * Sx + kx - left)
    of the source, or zeros outside. A record without ``pad`` has no padding; one without ``window`` has one
    place and stride 1.
    """

    aligned_source: bool


@dataclass(frozen=True, slots=True)
class Join:
    """Concatenation of two aligned tensors along ``dims``."""


@dataclass(frozen=True, slots=True)
class Nest:
    """Blocks read through one loop nest and written in the same order through another."""


@dataclass(frozen=True, slots=True)
class Fill:
    """One value written through a loop nest."""


@dataclass(frozen=True, slots=True)
class Load:
    """DDR to SPM: a strided source, a compact destination."""


@dataclass(frozen=True, slots=True)
class Store:
    """SPM to DDR: a compact source, a strided destination."""


@dataclass(frozen=True, slots=True)
class Matrix:
    """GEMM of the matrix engine."""


class Direction(Enum):
    """Kind of convolution: one of three sums over windows."""

    FORWARD = "forward"
    DEPTHWISE = "depthwise"
    """Each channel has its own window."""
    BACKWARD = "backward"
    """The gradient of the weights."""


@dataclass(frozen=True, slots=True)
class Convolution:
    """Convolution of the matrix engine."""

    direction: Direction = Direction.FORWARD


class Action(Enum):
    """The effect of an instruction without a kernel of its own."""

    WAIT = "wait"
    BARRIER = "barrier"
    SEND = "send"
    SCATTER = "scatter"
    """A send with a piece of the source for each tile."""
    SEND_WAIT = "send_wait"


@dataclass(frozen=True, slots=True)
class Control:
    """An instruction that keeps or waits for the tile's order; it has no kernel."""

    action: Action


@dataclass(frozen=True, slots=True)
class Relation:
    """``dst[i]`` is ``holds(src0[i][, src1[...]])`` as 1.0 or 0.0 in the operands' format, or as a bit.

    ``holds`` gives the same result in binary32, and calls no function.
    """

    holds: Callable[..., bool]
    form: Form
    packed: bool
    """The result is a packed bit vector."""


@dataclass(frozen=True, slots=True)
class Bitwise:
    """Bit vectors: ``body`` of integers combines the bits at the same place of its operands."""

    body: Callable[..., int]
    form: Form


@dataclass(frozen=True, slots=True)
class Unpack:
    """``dst[i]`` is 1.0 where bit i of ``src0`` is set, otherwise 0.0."""


@dataclass(frozen=True, slots=True)
class MaskedCopy:
    """``dst[i] = src0[i]`` where the number ``src1[i]`` is not zero; the other elements keep their values."""


@dataclass(frozen=True, slots=True)
class Gather:
    """``dst[i]`` is the element of ``src0`` that the unsigned number ``src1[i]`` points to."""

    bits: int
    """Bits of an element and of an index; 0: the bits of the instruction's format."""
    in_bytes: bool
    """Indices count bytes, otherwise elements."""


@dataclass(frozen=True, slots=True)
class Compress:
    """The elements of ``src0`` whose bit in ``src1`` is set, one after another."""


@dataclass(frozen=True, slots=True)
class CountNonZero:
    """The number of elements of ``src0`` that are not zero, into wb_data0."""


@dataclass(frozen=True, slots=True)
class CountBits:
    """The number of bits of ``src0`` that are set, into wb_data0."""


@dataclass(frozen=True, slots=True)
class Extreme:
    """The largest (or smallest) element of ``src0`` into wb_data0, its index into wb_data1."""

    largest: bool


@dataclass(frozen=True, slots=True)
class Split:
    """Several results: ``parts[k]`` of FP32 element i is element i of the result ``targets[k]``."""

    targets: tuple[str, ...]
    parts: tuple[Callable[[float], float], ...]


@dataclass(frozen=True, slots=True)
class Uniform:
    """Random numbers of 16 generators with two 64-bit words each; element i comes from generator i mod 16."""

    draw: Callable[[int, int], int]
    """Draws 64 random bits from a generator with these two words."""
    following: Callable[[int, int], int]
    """Computes the generator's next second word; its next first word is the present second one."""


@dataclass(frozen=True, slots=True)
class Dropout:
    """``dst[i]`` is 0 if ``dropped(u, p)`` for a u in [0, 1) from the tile's LFSR, else rounded ``body``."""

    dropped: Callable[[float, float], bool]
    body: Callable[[float, float], float]
    """(``src0[i]``, scale) -> product; exact in binary64 for operands of every format."""


@dataclass(frozen=True, slots=True)
class ScalarFunction:
    """``rd = round(body(src))`` for one value, in the core's registers."""

    body: Callable[[float], float]
