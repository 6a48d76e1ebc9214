"""Memory as text: a canonical hex dump, repeated lines collapsed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from .areas import Bytes, Scratchpad

_WIDTH = 16


def hex_dump(data: Bytes, address: int) -> Iterator[str]:
    """Yield lines of ``address 16 bytes |ASCII|``, the end address last; equal lines become one ``*``."""
    previous, collapsed = b"", False
    for at in range(0, data.size, _WIDTH):
        chunk = data[at : at + _WIDTH].tobytes()
        if chunk == previous and at + _WIDTH < data.size:
            if not collapsed:
                yield "*"
            collapsed = True
            continue
        previous, collapsed = chunk, False
        yield _line(chunk, address + at)
    yield f"{address + data.size:08x}"


def _line(chunk: bytes, address: int) -> str:
    left = " ".join(f"{byte:02x}" for byte in chunk[:8])
    right = " ".join(f"{byte:02x}" for byte in chunk[8:])
    text = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in chunk)
    return f"{address:08x}  {left:<23}  {right:<23}  |{text}|"


def dump_scratchpads(tiles: Iterable[tuple[int, Scratchpad]]) -> Iterator[str]:
    """Yield dumps of the written ranges of each tile's SPM, whole 256-byte lines."""
    for number, spm in tiles:
        ranges = spm.written()
        if not ranges:
            continue
        yield f"tile {number} SPM"
        for start, end in ranges:
            yield from hex_dump(spm.data[start:end], start)
