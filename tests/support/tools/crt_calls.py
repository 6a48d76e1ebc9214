"""Calls of the tables' members in one C program, which is run once; each result is compared with NumPy.

Numbers come from NumPy and ml_dtypes, and rounding is ``numpy.rint`` and similar functions on binary64. So
nothing here is shared with the emulator.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from crt_tools import ran
from tx8isa.c.tsm.tables import find

Array = np.ndarray[Any, Any]

FLOATS = {
    "FP16": (np.dtype(np.float16), 11),
    "BF16": (np.dtype(ml_dtypes.bfloat16), 8),
    "FP32": (np.dtype(np.float32), 24),
    "TF32": (np.dtype(np.float32), 11),
}
"""NumPy's type of a float format, and its significant bits."""
INTEGERS = {name: np.dtype(name.lower()) for name in ("INT8", "INT16", "INT32")}
DTYPES = {**{name: dtype for name, (dtype, _) in FLOATS.items()}, **INTEGERS}
MODES: tuple[tuple[str, Callable[[Array], Array]], ...] = (
    ("RND_NEAREST_EVEN", np.rint),
    ("RND_ZERO", np.trunc),
    ("RND_POS_INF", np.ceil),
    ("RND_NEG_INF", np.floor),
)
SRC0, SRC1, RESULTS = 0x10000, 0x18000, 0x40000
"""Scratchpad addresses of the operands of every call, and of the results, which each call has for itself."""
SPAN = 0x4000
"""Bytes that a call may use for its results."""
TURNS = 160
"""Calls until a place is used again."""


def rounded(fmt: str, values: Array, mode: Callable[[Array], Array] = np.rint) -> Array:
    """Binary64 numbers with as many significant bits as the format has; for normal numbers of it."""
    fraction, exponent = np.frexp(np.asarray(values, np.float64))
    bits = FLOATS[fmt][1]
    return np.ldexp(mode(np.ldexp(fraction, bits)), exponent - bits)


def stored(fmt: str, values: Array) -> bytes:
    """The bytes of numbers that the format has."""
    return np.asarray(values).astype(DTYPES[fmt]).tobytes()


def numbers(fmt: str, data: bytes) -> Array:
    """The numbers that bytes are, as binary64."""
    return np.frombuffer(data, DTYPES[fmt]).astype(np.float64)


def drawn(fmt: str, count: int, seed: int, low: float = -8.0, high: float = 8.0) -> Array:
    """Random numbers of the format between two limits."""
    rng = np.random.default_rng(seed)
    if fmt in INTEGERS:
        return rng.integers(-100, 100, count).astype(np.float64)
    return rounded(fmt, rng.uniform(low, high, count))


def pattern(fmt: str, value: float) -> str:
    """A number as a constant of a call: its bits, 16 extended by their sign as the vendor's code does."""
    data = stored(fmt, np.array([value]))
    word = int.from_bytes(data, "little", signed=len(data) < 4) & 0xFFFFFFFF
    return f"{word:#x}u"


@dataclass(frozen=True)
class Call:
    """One call of a member: ``arguments`` are those after the packet, ``@`` the address of its result."""

    member: str
    arguments: Sequence[object]
    inputs: Sequence[tuple[int, bytes]]
    """Scratchpad addresses and bytes of the initial contents."""
    expected: bytes
    """The bytes from its result address on."""
    within: str = ""
    """A float format whose last place the result may differ by; empty: bytes are equal."""
    bits: int = 0
    """Number of compared bits; 0 for all bytes."""
    more: Sequence[tuple[str, Sequence[object]]] = ()
    """Further members that are called on the same packet, and their arguments."""
    returns: bool = False
    """True if the result is in the packet's two write-back fields."""

    @property
    def packet(self) -> str:
        """The type of the packet."""
        return find(self.member)[1].packet.name

    @property
    def text(self) -> str:
        """The calls of the members, and the start of the instruction."""
        lines = []
        for name, arguments in ((self.member, self.arguments), *self.more):
            table, member = find(name)
            function = f"(({table.name} *)g_intrinsic()->{table.pointer})->{member.name}"
            lines.append(f"{function}({', '.join(['&p', *(str(a) for a in arguments)])});")
        return " ".join([*lines, "TsmExecute(&p);"])

    def check(self, found: bytes) -> None:
        """AssertionError when the result is not as expected."""
        what = f"{self.member}{tuple(self.arguments)}"
        if self.within:
            a, b = numbers(self.within, found), numbers(self.within, self.expected)
            step = 2.0 ** (1 - FLOATS[self.within][1])
            apart = np.abs(a - b) > step * np.maximum(np.abs(b), 2.0**-14)
            assert not apart.any(), (what, a[apart], b[apart])
        elif self.bits:
            a, b = (np.unpackbits(np.frombuffer(d, "u1"), bitorder="little") for d in (found, self.expected))
            assert (a[: self.bits] == b[: self.bits]).all(), what
        else:
            assert found == self.expected, (what, found.hex(), self.expected.hex())


_HEAD = """\
#include <tx8.h>
#include "instr_adapter.h"
#include "instr_operator.h"
static void put(uint32_t spm, uint32_t offset, uint32_t bytes) {
    DMA_Param p = {I_RDMA, {0,}, {0,}};
    TsmNewRdma()->Rdma1d(&p, tx8_engine_address(given) + offset, spm, bytes, Fmt_INT8);
    TsmExecute(&p);
}
static void take(uint32_t spm, uint32_t offset, uint32_t bytes) {
    DMA_Param p = {I_WDMA, {0,}, {0,}};
    TsmNewWdma()->Wdma1d(&p, spm, tx8_engine_address(found) + offset, bytes, Fmt_INT8);
    TsmExecute(&p);
}
"""


def check_calls(calls: Iterable[Call], folder: Path) -> None:
    """Run calls in one program, one after the other on a tile, and check each result."""
    calls = list(calls)
    given, size, steps = bytearray(), 0, []
    for index, call in enumerate(calls):
        at = RESULTS + SPAN * (index % TURNS)
        for address, data in call.inputs:
            place = address if address < RESULTS else at + address - RESULTS
            steps.append(f"put({place:#x}, {len(given)}, {len(data)});")
            given += data
        called = call.text.replace("@", f"{at:#x}")
        packet = f"{call.packet} p = {{0, {{0,}}, {{0,}}}};"
        after = f"take({at:#x}, {size}, {len(call.expected)});"
        if call.returns:
            results = "const uint64_t r[2] = {p.param.wb_data0, p.param.wb_data1};"
            after = f"{results} memcpy(found + {size}, r, sizeof r);"
        steps.append(f"{{ {packet} {called} {after} }}")
        size += len(call.expected)
    arrays = (
        f"#include <stdint.h>\n#include <string.h>\nuint8_t given[{max(1, len(given))}], found[{size}];\n"
    )
    body = "\n    ".join(["if (tx8_tile()) return 0;", *steps, "TsmWaitfinish();", "return 0;"])
    source = f"{arrays}{_HEAD}int main(void) {{\n    {body}\n}}\n"
    found = ran(source, folder, {"given": bytes(given)}, {"found": size})["found"]
    start = 0
    for call in calls:
        call.check(found[start : start + len(call.expected)])
        start += len(call.expected)


def aligned(fmt: str, values: Array) -> bytes:
    """An array [N, H, W, C] in the layout of the engines, its padding 0.

    Planes of 64 channels, 128 of one byte, then a narrower one; each of the N takes a multiple of 256 bytes.
    """
    dtype = DTYPES[fmt]
    block = 128 if dtype.itemsize == 1 else 64
    volumes = b""
    for volume in np.asarray(values).reshape(values.shape[0], -1, values.shape[-1]):
        rest = volume.shape[1] % block
        tail = next((w for w in (4, 8, 16, 32, 64) if w >= rest and w <= block // 2), block) if rest else 0
        wide = volume.shape[1] - rest + tail
        padded = np.zeros((len(volume), wide), dtype)
        padded[:, : volume.shape[1]] = volume.astype(dtype)
        data = b"".join(padded[:, c : c + block].tobytes() for c in range(0, wide, block))
        volumes += data + bytes(-len(data) % 256)
    return volumes


def lanes(*extents: int) -> str:
    """Four numbers as a ``Data_Shape``."""
    return f"(Data_Shape){{{', '.join(str(e) for e in extents)}}}"


def formats_of(member: str) -> list[str]:
    """The formats that the record of a member has, in upper case."""
    record = find(member)[1].record
    assert record is not None
    return [f.name for f in record.formats]
