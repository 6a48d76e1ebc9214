"""Instructions in the queues, which ``monitor queues`` prints as assembly spells them."""

from __future__ import annotations

import asm
from chip_bench import TX81
from dte_harness import EXIT
from emulator.chip.pause import Pause
from emulator.chip.system import System
from emulator.debug.gdb.pending import describe, pending

CONV = (
    "ne.conv.fp16 out_format=fp32, a=0x0, w=0x10000, out=0x20000, shape=[1, 8, 8, 64], "
    "dst_shape=[1, 6, 6, 64], window=[3, 3, 1, 1]"
)
LOAD = "rdma.fp16 dst=0x30000, src=0x280300000, n=64"


def test_shapes_are_lists_and_formats_have_names() -> None:
    system = System(asm.assemble(f"_start: {CONV}\n {LOAD}\n nop\n nop\n{EXIT}", machine=TX81), TX81)
    assert system.run(pause=Pause(3))
    tile = system.tiles[0]
    assert [describe(tile, entry) for entry in pending(tile)] == [CONV, LOAD]
