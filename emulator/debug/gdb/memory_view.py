"""Memory as the debugger sees it: the selected tile's kernel core's, and DDR in the engines' view."""

from __future__ import annotations

from emulator.chip.system import System
from emulator.engines import queues
from emulator.memory.areas import Bytes
from emulator.tile.tile import Tile
from tx8isa.errors import Tx8Error


def bytes_at(system: System, tile: Tile, address: int, size: int) -> Bytes | None:
    """Return a view of the bytes, or None where not all of them are memory: device registers, or nothing.

    Device registers are not read, because reading them has effects.
    """
    found = system.memories.core_bytes(tile.number, address, size)
    if found is None and address >= system.machine.windows.ddr_engine:
        try:
            return system.ddr_range(address, size)
        except Tx8Error:
            return None
    return found


def store(system: System, tile: Tile, address: int, data: bytes) -> bool:
    """Write memory; False where there is none."""
    target = bytes_at(system, tile, address, len(data))
    if target is None:
        return False
    target[:] = bytearray(data)
    place = place_of(system, tile, address, len(data))
    if place is not None and place < queues.DDR:
        tile.spm.mark(place, len(data))
    return True


def place_of(system: System, tile: Tile, address: int, size: int) -> int | None:
    """Return an address, in whichever window, as an SPM offset, or a DDR offset + ``queues.DDR``."""
    found = bytes_at(system, tile, address, size)
    if found is None:
        return None
    host = int(found.ctypes.data)
    inside = host - int(tile.spm.data.ctypes.data)
    if 0 <= inside < tile.spm.data.size:
        return inside
    return queues.DDR + host - int(system.ddr.ctypes.data)
