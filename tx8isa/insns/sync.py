"""Tile-to-tile copies, waits and the barrier (docs/isa.md, Copies between tiles)."""

from __future__ import annotations

from ..meaning import Action, Control
from ..nest import block_not_empty
from ..operands import count, linear
from ..record import Engine, Extent, Instruction, Operand, register


def _anywhere(name: str, field: str, role: str) -> Operand:
    """A byte address in the SPM or, engines' view, in DDR."""
    return Operand(
        name, field, 2, 40, 0, (1 << 40) - 1, memory="any", role=role, extent=Extent(linear, (8, "n"))
    )


register(
    Instruction(
        Engine.DTE, 0, "dte.unicast",
        (
            _anywhere("dst", "dst 0", "write"),
            _anywhere("src", "src", "read"),
            count("tile", "dst 0", 0, 0xFFFF),
            count("n", "length", 0, (1 << 32) - 1),
        ),
        (), Control(Action.SEND),
        "Start a copy of n bytes from src of this tile to dst of another tile; DDR addresses "
        "mean the shared DDR. "
        "The copy is complete when dte.wait returns.",
        "dte.unicast dst=0x20000, src=0x10000, tile=3, n=256",
        "spec and board",
        (block_not_empty,),
    )
)  # fmt: skip

register(
    Instruction(
        Engine.DTE, 1, "dte.wait", (), (), Control(Action.SEND_WAIT),
        "Wait until every copy this tile has started is complete.",
        "dte.wait", "inferred: the polling loop over dma_status as one instruction",
    )
)  # fmt: skip

register(
    Instruction(
        Engine.NCC, 0, "ncc.wait", (), (), Control(Action.WAIT),
        "Wait until all instructions this tile has issued to its NCC engines are complete; DTE "
        "is not included.",
        "ncc.wait", "spec and board: polling TASK_DONE, as one instruction",
    )
)  # fmt: skip

register(
    Instruction(
        Engine.NCC, 1, "ncc.barrier",
        (Operand("tiles", "tiles", 2, 64, 0, (1 << 64) - 1, default=0),),
        (), Control(Action.BARRIER),
        "Wait until every tile of the set has reached a barrier with the same set; bit t of "
        "tiles is tile t, 0 "
        "means all tiles. Engines and DTE must be drained before.",
        "ncc.barrier tiles=0xffff", "proposed: a group barrier for any tile set",
    )
)  # fmt: skip
