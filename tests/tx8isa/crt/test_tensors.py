"""Members on tensors, and the odd ones, called from C in every format, against NumPy."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from c_tools import needs_gcc
from crt_calls import (
    DTYPES,
    FLOATS,
    INTEGERS,
    SRC0,
    SRC1,
    Array,
    Call,
    aligned,
    check_calls,
    formats_of,
    lanes,
    pattern,
    rounded,
    stored,
)
from tx8isa.c.tsm.tables import tables

MOVED = (*FLOATS, *INTEGERS)


def whole(shape: tuple[int, ...], seed: int, size: int = 4) -> Array:
    """Small whole numbers, so that sums are exact in every format."""
    return np.random.default_rng(seed).integers(-size, size, shape).astype(np.float64)


def reductions() -> Iterator[Call]:
    axes = {0: (3,), 1: (2,), 2: (1,), 4: (1, 2)}
    functions = {"Sum": np.sum, "Avg": np.mean, "Max": np.max, "Min": np.min}
    x = whole((1, 2, 5, 70), 1)
    for fmt in FLOATS:
        for name, function in functions.items():
            for dim, axis in axes.items():
                values = rounded(fmt, function(x, axis=axis, keepdims=True))
                arguments = [SRC0, "@", dim, lanes(*x.shape), f"Fmt_{fmt}"]
                given = [(SRC0, aligned(fmt, x))]
                yield Call(f"TsmReduce.Reduce{name}", arguments, given, aligned(fmt, values))


def windows(x: Array, fill: float) -> Array:
    """The 2 x 3 windows, steps 2, of an image with a column of padding at each side: N, OH, OW, 6, C."""
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (0, 0)), constant_values=fill)
    parts = [padded[:, y : y + 3 : 2, k : k + 5 : 2] for y in range(2) for k in range(3)]
    return np.stack(parts, axis=3)


def pools() -> Iterator[Call]:
    x = whole((1, 4, 5, 70), 2, 9)
    geometry = [lanes(1, 2, 3, 70), lanes(0, 0, 1, 1), lanes(3, 2, 2, 2)]
    zeros, low, high = windows(x, 0), windows(x, -np.inf), windows(x, np.inf)
    values = {
        "SumPool": zeros.sum(3),
        "AvgPool": zeros.sum(3) / 6,
        "MaxPool": low.max(3),
        "MinPool": high.min(3),
        "IndexdMaxPool": low.max(3),
        "IndexdMinPool": high.min(3),
    }
    places = {"IndexdMaxPool": low.argmax(3), "IndexdMinPool": high.argmin(3)}
    for fmt in FLOATS:
        for name, result in values.items():
            first = aligned(fmt, rounded(fmt, result))
            extra, second, gap = [], b"", b""
            if name in places:
                index = "INT16" if DTYPES[fmt].itemsize == 2 else "INT32"
                extra, second, gap = [f"@ + {len(first)}"], aligned(index, places[name]), b""
            arguments = [SRC0, lanes(*x.shape), "@", *extra, *geometry, f"Fmt_{fmt}"]
            yield Call(f"TsmPool.{name}", arguments, [(SRC0, aligned(fmt, x))], first + gap + second)


def unpools() -> Iterator[Call]:
    x, place = whole((1, 2, 3, 70), 3), np.random.default_rng(4).integers(0, 4, (1, 2, 3, 70))
    spread = np.repeat(np.repeat(x, 2, axis=1), 2, axis=2)
    which = np.repeat(np.repeat(place, 2, axis=1), 2, axis=2)
    rows, columns = np.ogrid[:4, :6]
    here = ((rows % 2) * 2 + columns % 2)[None, :, :, None]
    geometry = [lanes(1, 4, 6, 70), lanes(2, 2, 2, 2)]
    for fmt in FLOATS:
        given = [(SRC0, aligned(fmt, x)), (SRC1, aligned("INT16", place))]
        averaged = aligned(fmt, spread / 4)
        yield Call("TsmUnPool.UnpoolAvg", [SRC0, "@", *geometry, f"Fmt_{fmt}"], given[:1], averaged)
        for name in ("Unpool", "UnpoolIdx"):
            arguments = [SRC0, SRC1, "@", *geometry, f"Fmt_{fmt}"]
            yield Call(
                f"TsmUnPool.{name}", arguments, given, aligned(fmt, np.where(which == here, spread, 0))
            )


TURNED: dict[str, Callable[[Array], Array]] = {
    "Mirror": lambda x: x[:, :, ::-1],
    "Transpose": lambda x: x.swapaxes(1, 2),
    "Rotate90": lambda x: np.rot90(x, -1, (1, 2)),
    "Rotate180": lambda x: np.rot90(x, 2, (1, 2)),
    "Rotate270": lambda x: np.rot90(x, 1, (1, 2)),
    "Nhwc2nchw": lambda x: x.transpose(0, 3, 1, 2),
    "Nchw2nhwc": lambda x: x.reshape(2, 3, 4, 5).transpose(0, 2, 3, 1),
}


def moves() -> Iterator[Call]:
    for fmt in MOVED:
        code, x = f"Fmt_{fmt}", whole((2, 4, 5, 3), 5, 99)
        for name, turned in TURNED.items():
            result = turned(x)
            after = (2, 4, 5, 3) if name.startswith("N") else result.shape
            arguments = [SRC0, lanes(2, 4, 5, 3), "@", lanes(*after), code]
            yield Call(f"TsmDataMove.{name}", arguments, [(SRC0, stored(fmt, x))], stored(fmt, result))
        yield from aligned_moves(fmt)
    yield nested_move()


def aligned_moves(fmt: str) -> Iterator[Call]:
    code, x = f"Fmt_{fmt}", whole((2, 3, 4, 70), 6, 99)
    image = lanes(*x.shape)
    name = [SRC0, image, "@", image, code]
    yield Call("TsmDataMove.TensorNom", name, [(SRC0, stored(fmt, x))], aligned(fmt, x))
    padded = np.pad(x, ((0, 0), (1, 2), (0, 1), (0, 0)))
    arguments = [SRC0, image, "@", lanes(*padded.shape), lanes(1, 2, 0, 1), code]
    yield Call("TsmDataMove.Pad", arguments, [(SRC0, aligned(fmt, x))], aligned(fmt, padded))
    for dims, axis in ((0, 3), (1, 2), (2, 1)):
        y = whole(tuple(2 if a == axis else e for a, e in enumerate(x.shape)), 7, 99)
        both = np.concatenate([x, y], axis)
        arguments = [SRC0, image, SRC1, lanes(*y.shape), "@", lanes(*both.shape), dims, code]
        given = [(SRC0, aligned(fmt, x)), (SRC1, aligned(fmt, y))]
        yield Call("TsmDataMove.Concat", arguments, given, aligned(fmt, both))
    small = x[..., :6]
    padded = np.pad(small, ((0, 0), (0, 0), (1, 1), (0, 0)))
    columns = [padded[:, y : y + 2, k : k + 5 : 2].reshape(2, 6, 6) for y in range(2) for k in range(2)]
    result = np.stack(columns, 1)
    geometry = [small.size, result.size, lanes(2, 2, 2, 1), lanes(0, 0, 1, 1), code]
    arguments = [SRC0, lanes(*small.shape), "@", lanes(*result.shape), *geometry]
    yield Call("TsmDataMove.Img2col", arguments, [(SRC0, aligned(fmt, small))], aligned(fmt, result))


def nested_move() -> Call:
    """Strides in bytes and plain trip counts on both sides."""
    data = np.arange(4096) % 251
    read = [
        i2 * 1000 + i1 * 100 + i0 * 10 + b
        for i2 in range(2)
        for i1 in range(3)
        for i0 in range(4)
        for b in range(6)
    ]
    target = np.full(24 * 8, 0xAA)
    target[[8 * i + b for i in range(24) for b in range(6)]] = data[read]
    source = "&(St_StrideIteration){10, 4, 100, 3, 1000, 2}"
    arguments = [SRC0, "@", 6, source, "&(St_StrideIteration){8, 24, 0, 1, 0, 1}"]
    given = [(SRC0, data.astype("u1").tobytes()), (0x40000, bytes([0xAA]) * 192)]
    return Call("TsmDataMove.GatherScatter", arguments, given, target.astype("u1").tobytes())


def selections() -> Iterator[Call]:
    n, rng = 40, np.random.default_rng(8)
    x, old, mask = whole((n,), 9), whole((n,), 10), rng.integers(0, 2, n)
    index = rng.integers(0, n, n)
    for fmt in FLOATS:
        code, width = f"Fmt_{fmt}", DTYPES[fmt].itemsize
        before, data = (0x40000, stored(fmt, old)), (SRC0, stored(fmt, x))
        arguments = [SRC0, SRC1, "@", n, code]
        given = [data, (SRC1, stored(fmt, mask)), before]
        yield Call("TsmMaskDataMove.MaskMove", arguments, given, stored(fmt, np.where(mask, x, old)))
        given = [data, (SRC1, np.packbits(mask, bitorder="little").tobytes()), before]
        packed = np.concatenate([x[mask == 1], old[mask.sum() :]])
        yield Call("TsmMaskDataMove.MaskGather_bV", arguments, given, stored(fmt, packed))
        given = [data, (SRC1, index.astype(f"u{width}").tobytes())]
        arguments = [SRC0, SRC1, "@", n, n, code]
        yield Call("TsmMaskDataMove.MaskGather", arguments, given, stored(fmt, x[index]))


def returned() -> Iterator[Call]:
    x = whole((50,), 11, 90)
    x[[7, 9]], x[20], x[30] = 0.0, 99.0, -97.0
    for fmt in FLOATS:
        given, arguments = [(SRC0, stored(fmt, x))], [SRC0, 50, f"Fmt_{fmt}"]
        for name, results in {
            "Count": (int((x != 0).sum()), 0),
            "ArgMax": (int(pattern_of(fmt, 99.0)), 20),
            "ArgMin": (int(pattern_of(fmt, -97.0)), 30),
        }.items():
            expected = b"".join(v.to_bytes(8, "little") for v in results)
            yield Call(f"TsmPeripheral.{name}", arguments, given, expected, returns=True)


def pattern_of(fmt: str, value: float) -> int:
    return int.from_bytes(stored(fmt, np.array([value])), "little")


def peripherals() -> Iterator[Call]:
    yield from returned()
    n, rng = 40, np.random.default_rng(12)
    for fmt in MOVED:
        value, width = pattern(fmt, -5.0), DTYPES[fmt].itemsize
        rows = np.full((3, 16), 0x77, "u1")
        rows[:, : 4 * width] = np.frombuffer(stored(fmt, np.full(12, -5.0)), "u1").reshape(3, -1)
        arguments = ["@", value, 4, "&(St_StrideIteration){16, 3, 0, 1, 0, 1}", f"Fmt_{fmt}"]
        yield Call("TsmPeripheral.Memset", arguments, [(0x40000, b"\x77" * 48)], rows.tobytes())
    bits = rng.integers(0, 2, n)
    for fmt in FLOATS:
        given = [(SRC0, np.packbits(bits, bitorder="little").tobytes())]
        yield Call("TsmPeripheral.Bit2Fp", [SRC0, "@", n, f"Fmt_{fmt}"], given, stored(fmt, bits))
        yield resize(fmt)
        yield from dropouts(fmt)
    for width in (16, 32):
        table, place = rng.integers(0, 1 << width, 24), rng.integers(0, 24, n)
        given = [(SRC0, table.astype(f"u{width // 8}").tobytes())]
        given.append((SRC1, (place * (width // 8)).astype(f"u{width // 8}").tobytes()))
        expected = table[place].astype(f"u{width // 8}").tobytes()
        yield Call(f"TsmPeripheral.Lut{width}", [SRC1, "@", SRC0, n, 24], given, expected)
    x = np.array([1.0, -6.0, 0.15625, -0.0, 40.0, -3.0e-5, 7.0, 1024.0] * 8, np.float32)
    fraction, exponent = np.frexp(np.abs(x))
    parts = [np.where(x < 0, -1, 1), np.where(x == 0, 0, exponent - 1), fraction * 2]
    arguments = [SRC0, "@", "@ + 256", "@ + 512", 64]
    expected = b"".join(stored("FP32", part) for part in parts)
    yield Call("TsmPeripheral.Factorize", arguments, [(SRC0, x.tobytes())], expected)
    for fmt in ("INT16", "FP16", "BF16", "INT32", "FP32", "TF32"):
        yield random_numbers(fmt)


def resize(fmt: str) -> Call:
    x = whole((1, 3, 4, 70), 13)
    middles = (x + np.concatenate([x[:, 1:], x[:, -1:]], 1)) / 2
    tall = np.stack([x, middles], 2).reshape(1, 6, 4, 70)
    middles = (tall + np.concatenate([tall[:, :, 1:], tall[:, :, -1:]], 2)) / 2
    result = np.stack([tall, middles], 3).reshape(1, 6, 8, 70)
    arguments = [SRC0, "@", lanes(*x.shape), lanes(*result.shape), 0x8000, 0x8000, f"Fmt_{fmt}"]
    return Call("TsmPeripheral.Bilinear", arguments, [(SRC0, aligned(fmt, x))], aligned(fmt, result))


def dropouts(fmt: str) -> Iterator[Call]:
    """With probability 0 and 1; random results in between have no oracle."""
    x = whole((40,), 14)
    for probability, kept in ((0.0, x * 1.5), (1.0, np.zeros(40))):
        arguments = [SRC0, pattern(fmt, 1.5), "@", 40, pattern("FP32", probability), "RND_NEAREST_EVEN"]
        given = [(SRC0, stored(fmt, x))]
        yield Call("TsmPeripheral.ElemMask", [*arguments, f"Fmt_{fmt}"], given, stored(fmt, kept))


def random_numbers(fmt: str) -> Call:
    """16 generators xorshift128+ in turn; a number is the highest bits of the sum of a state's two words."""
    n, mask = 48, (1 << 64) - 1
    seeds = np.random.default_rng(15).integers(1, 1 << 63, (2, 16))
    states, drawn = [[int(a), int(b)] for a, b in seeds.T], []
    for i in range(n):
        a, b = states[i % 16]
        drawn.append((a + b) & mask)
        a ^= a << 23 & mask
        states[i % 16] = [b, a ^ b ^ a >> 18 ^ b >> 5]
    bits = FLOATS[fmt][1] if fmt in FLOATS else DTYPES[fmt].itemsize * 8
    top = np.array([d >> 64 - bits for d in drawn], np.uint64)
    values = top.astype(np.float64) * 2.0**-bits if fmt in FLOATS else top.astype(np.int64)
    after = np.array(states, np.uint64).T.tobytes()
    given = [(SRC0, seeds[0].astype("u8").tobytes()), (SRC1, seeds[1].astype("u8").tobytes())]
    arguments = [SRC0, SRC1, "@", "@ + 128", "@ + 256", n, f"Fmt_{fmt}"]
    return Call("TsmPeripheral.RandGen", arguments, given, after + stored(fmt, values))


GROUPS = {
    "reductions": (reductions, ("TsmReduce",)),
    "pools": (lambda: [*pools(), *unpools()], ("TsmPool", "TsmUnPool")),
    "moves": (moves, ("TsmDataMove",)),
    "selections": (selections, ("TsmMaskDataMove",)),
    "peripherals": (peripherals, ("TsmPeripheral",)),
}


@needs_gcc
@pytest.mark.parametrize("group", GROUPS)
def test_members_compute_what_numpy_does(group: str, tmp_path: Path) -> None:
    check_calls(GROUPS[group][0](), tmp_path)


@pytest.mark.parametrize("group", GROUPS)
def test_every_member_is_called_in_every_format(group: str) -> None:
    calls, names = GROUPS[group]
    used: dict[str, set[str]] = defaultdict(set)
    for call in calls():
        used[call.member] |= {str(a)[4:] for a in call.arguments if str(a).startswith("Fmt_")}
    members = [f"{table.name}.{m.name}" for table in tables() if table.name in names for m in table.members]
    assert used == {member: set(formats_of(member)) for member in members}
