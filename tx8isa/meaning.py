"""The shapes a meaning can have. The emulator has one mould for each; the record brings the small body.

Bodies see operand elements already widened to binary64 and return binary64; the mould rounds once to the
format. Bodies are plain Python over ``primitives`` and ``elementary``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from .formats import Format


class Form(Enum):
    """How the second operand of a vector instruction is read (docs/isa.md, Vector forms)."""

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
    """Sign-correct error of the binary64 ``body`` result: what rounding modes other than nearest need."""
    single: bool = False
    """The body may be evaluated in binary32: same result after the one rounding. TF32 is excepted: below its
    normal range its products have more bits than binary32 keeps there."""


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
    finish: Callable[[float, float], float]
    """(accumulator, number of elements) -> binary64 value that is rounded once to the format."""


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


@dataclass(frozen=True, slots=True)
class Move:
    """Every element of the result is one element of the source, or zero.

    ``source(i, j, k, m, N, H, W, C, top, left)`` gives, for the result element at coordinates (i, j, k, m) of
    the result's own stored order, the flat index of the source element in the source's stored order, or -1
    for a zero. With an aligned result channel m comes from channel m of one place: for fixed i, j, k the
    index is a multiple of C plus m for all m, or -1 for all m. N, H, W, C is the source shape operand. The
    result's stored extents are ``dst_shape``, but N, C, H, W when the result is NCHW (``channels_first``).
    """

    source: Callable[..., int]
    aligned_source: bool
    aligned_result: bool
    channels_first: bool = False


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


@dataclass(frozen=True, slots=True)
class Convolution:
    """Convolution of the matrix engine."""


class Action(Enum):
    """What the tile does at an instruction that moves no data."""

    WAIT = "wait"
    BARRIER = "barrier"
    SEND = "send"
    SEND_WAIT = "send_wait"


@dataclass(frozen=True, slots=True)
class Control:
    """Handled where the tile's order is kept, not by a kernel."""

    action: Action
