"""The wait for the engines and the barrier (docs/isa.md, Copies between tiles)."""

from __future__ import annotations

from tx8isa.records.meaning import Action, Control
from tx8isa.records.record import Engine, Instruction, Operand, register

register(
    Instruction(
        Engine.NCC,
        0,
        "ncc.wait",
        (),
        (),
        Control(Action.WAIT),
        "Wait until all instructions this tile has issued to its NCC engines through the worker are "
        "complete; other workers and DTE are not included.",
        "ncc.wait",
        "spec and board: polling TASK_DONE, as one instruction",
    ),
    __name__,
)

register(
    Instruction(
        Engine.NCC,
        1,
        "ncc.barrier",
        (Operand("tiles", "tiles", 2, 64, 0, (1 << 64) - 1, default=0),),
        (),
        Control(Action.BARRIER),
        "Wait until every tile of the set has reached a barrier with the same set; bit t of "
        "tiles is tile t, 0 "
        "means all tiles. Engines and DTE must be drained before.",
        "ncc.barrier tiles=0xffff",
        "proposed: a group barrier for any tile set",
    ),
    __name__,
)
