"""Tensors in the memories of a chip, by the name of a buffer or by address, format, shape and layout."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from asm.image import Image, ddr_offset
from emulator.memory.areas import Bytes
from tx8isa.errors import Tx8Error
from tx8isa.machine.description import Machine
from tx8isa.numbers.formats import Format
from tx8isa.numbers.layouts import Layout, place
from tx8isa.numbers.packing import unpack
from tx8isa.tools.suggestions import hint

from .system import System

SPEC = "NAME, TILE:ADDRESS:FORMAT:SHAPE[:LAYOUT] or ddr:ADDRESS:FORMAT:SHAPE[:LAYOUT]"
"""The syntax of a tensor's name."""
_MOST = 1 << 30
"""The most bytes of a tensor that is shown."""

Array = np.ndarray[Any, Any]


class TensorError(Tx8Error):
    """A text that does not name a tensor of this chip."""


@dataclass(frozen=True)
class TensorView:
    """A tensor in the scratchpad of a tile, or in DDR if ``tile`` is None; the address is the engines'."""

    tile: int | None
    address: int
    format: Format
    shape: tuple[int, ...]
    layout: Layout
    size: int
    """Bytes, with the padding of the layout."""

    @property
    def title(self) -> str:
        """Return ``DDR 0x280000000: 2x3 fp16, tensor``."""
        memory = "DDR" if self.tile is None else f"tile {self.tile} SPM"
        shape = "x".join(map(str, self.shape)) or "scalar"
        return f"{memory} 0x{self.address:x}: {shape} {self.format.token}, {self.layout.token}"

    def read(self, system: System) -> Array:
        """Return the values as they are in memory now; bf16 and tf32 as float32."""
        array = unpack(self._bytes(system), self.format, self.shape, self.layout)
        return array if array.dtype.isbuiltin == 1 else array.astype(np.float32)

    def _bytes(self, system: System) -> Bytes:
        if self.tile is None:
            return system.ddr_range(self.address, self.size)
        return system.tiles[self.tile].spm.data[self.address : self.address + self.size]

    def lines(self, system: System) -> Iterator[str]:
        """Yield the title and the values; of a large tensor the first and last of each axis."""
        yield self.title
        yield from np.array2string(self.read(system), separator=" ", max_line_width=100).splitlines()


def find_tensor(text: str, image: Image, machine: Machine) -> TensorView:
    """Return the tensor that ``text`` names as in ``SPEC``; TensorError lists the allowed forms."""
    for buffer in image.buffers:
        if buffer.name == text:
            offset = ddr_offset(buffer.address, image.windows)
            assert offset is not None  # checked when the image was read
            fmt, layout = Format.parse(buffer.format), Layout.parse(buffer.layout)
            address = machine.windows.ddr_engine + offset
            size = place(fmt, buffer.shape, layout).total_bytes
            return TensorView(None, address, fmt, buffer.shape, layout, size)
    memory, *rest = text.split(":")
    if not 3 <= len(rest) <= 4:
        names = [buffer.name for buffer in image.buffers]
        there = ", ".join(names) or "none"
        raise TensorError(f"no tensor '{text}': expected {SPEC}; names: {there}{hint(text, names)}")
    try:
        return _placed(memory, rest, machine)
    except Tx8Error as error:
        raise TensorError(f"tensor '{text}': {error}") from None


def check_file(file: str) -> None:
    """Raise TensorError unless a file has the name of an array's file."""
    if not file.endswith(".npy"):
        raise TensorError(f"a tensor saved in '{file}', expected the name of a .npy file")


def tensor_file_bytes(view: TensorView, system: System) -> bytes:
    """Return a tensor in .npy form."""
    data = io.BytesIO()
    np.lib.format.write_array(data, view.read(system), allow_pickle=False)
    return data.getvalue()


def _placed(memory: str, rest: list[str], machine: Machine) -> TensorView:
    tile = None if memory == "ddr" else _number(memory, "tile")
    if tile is not None and tile >= machine.tiles:
        raise TensorError(f"tile {tile} is outside 0..{machine.tiles - 1}")
    address, fmt = _number(rest[0], "address"), Format.parse(rest[1])
    if not re.fullmatch(r"[0-9]+(x[0-9]+)*", rest[2]):
        raise TensorError(f"shape '{rest[2]}', expected numbers such as 2x3")
    shape = tuple(int(extent) for extent in rest[2].split("x"))
    layout = Layout.parse(rest[3]) if len(rest) == 4 else Layout.TENSOR
    size = place(fmt, shape, layout).total_bytes
    first = machine.windows.ddr_engine if tile is None else 0
    end = first + (machine.ddr.bytes if tile is None else machine.spm.bytes)
    if size > _MOST:
        raise TensorError(f"{size} bytes, at most {_MOST} are shown")
    if not first <= address <= end - size:
        where = "DDR, the engines' view" if tile is None else "the SPM"
        there = f"0x{first:x}..0x{end - 1:x}, {where}"
        raise TensorError(f"0x{address:x} and {size} bytes from there: outside {there}")
    return TensorView(tile, address, fmt, shape, layout, size)


def _number(text: str, what: str) -> int:
    if not re.fullmatch(r"0[xX][0-9a-fA-F]+|[0-9]+", text):
        raise TensorError(f"{what} '{text}', expected a number" + (" or ddr" if what == "tile" else ""))
    return int(text, 0) if text.lower().startswith("0x") else int(text)
