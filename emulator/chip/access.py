"""Loads and stores of the kernel core that go to registers of devices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from emulator.memory import stop
from emulator.tile.device import Device
from emulator.tile.fault import fault
from emulator.tile.pmu import NccPmu
from emulator.tile.tile import Tile
from tx8isa.table import scalar as rv

from .clock import look_at_time

if TYPE_CHECKING:
    from .system import System

_SCALAR_BYTES = 4


def find_device(devices: Sequence[Device], address: int) -> Device | None:
    """The device at a core address."""
    return next((d for d in devices if d.base <= address < d.base + d.size), None)


def access_register(system: System, tile: Tile) -> None:
    """Execute the load or store at a tile's program counter, unless the tile has to wait for its time first.

    Fault when there is no such register.
    """
    address = tile.detail[0] & (1 << 64) - 1
    device = find_device(system.devices, address)
    record, values = system.codes[tile.number].scalar(tile.pc)
    if isinstance(device, NccPmu) and device.needs_time(tile, address - device.base, record.kind == "store"):
        if not look_at_time(system.simulator, tile, register=True):
            return
        if system.simulator is None and record.kind == "load":
            text = "the counter counts time: run with --timed (System(timed=True))"
            raise system.traffic.fault(tile, text)
    if device is None or not _transfer(device, tile, record, values, address - device.base):
        raise fault(system.image, tile, stop.MEMORY)
    tile.advance(_SCALAR_BYTES)


def _transfer(device: Device, tile: Tile, record: rv.Scalar, values: dict[str, int], offset: int) -> bool:
    """Whether the device took a load or store."""
    if any(field.kind == "float" for field in record.fields):
        return False  # registers of devices answer loads and stores of x registers only (proposed)
    if record.kind == "store":
        value = int(record.body(tile.register(values["rs2"])))
        return device.store(tile, offset, record.width, value)
    raw = device.load(tile, offset, record.width)
    if raw is not None:
        tile.set_register(values["rd"], record.body(raw))
    return raw is not None
