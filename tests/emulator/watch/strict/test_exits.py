"""A tile that exits before its outputs are written, and hazards that several tiles have."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import asm
from asm.image import write_image
from emulator.cli import main
from emulator.program import Program
from emulator.watch.strict.hazards import Hazard, Site, grouped
from tx8isa.machine.description import load_machine

PROGRAM = """
.input x, fp16, 16x8
.output y, fp16, 16x8
.output z, fp16, 16x8
_start: csrr t0, mhartid
    slli t0, t0, 4
    la a0, x
    la a1, y
    la a2, z
    add a0, a0, t0
    add a1, a1, t0
    add a2, a2, t0
    rdma.fp16 dst=0x1000, src=a0, n=8
    wdma.fp16 dst=a1, src=0x1000, n=8
    {between}
    {last}
    {end}
    li a0, {status}
    li a7, 93
    ecall
"""
LINE = 20
WAIT, NOTHING = "ncc.wait", "nop"
X = np.ones((16, 8), np.float16)


def hazards(between: str, last: str, end: str, status: int = 0) -> tuple[Hazard, ...]:
    text = PROGRAM.format(between=between, last=last, end=end, status=status)
    program = Program(asm.assemble(text, "p.s"), load_machine(None))
    if status:
        with pytest.raises(Exception, match="exited with status"):
            program.run({"x": X}, strict=True)
    else:
        found = program.run({"x": X}, strict=True)
        assert found["y"].tolist() == X.tolist()
    return program.hazards


def test_the_last_wait_is_missing() -> None:
    found = hazards(NOTHING, NOTHING, NOTHING)
    assert {hazard.at.tile for hazard in found} == set(range(16))
    assert len(found) == 16
    first = found[0]
    assert (first.kind, first.at.name, first.at.line) == ("unfinished", "exit", LINE)
    assert first.other is not None
    assert (first.other.name, first.other.tile, first.other.line) == ("wdma", 0, 14)
    assert first.what.startswith(
        "ends while wdma of tile 0 (p.s:14) may still be writing output 'y', 0x28000"
    )
    assert first.fix == f"insert 'ncc.wait' before p.s:{LINE}"
    assert first.last - first.first == 15


def test_a_wait_that_comes_too_early() -> None:
    found = hazards(WAIT, "wdma.fp16 dst=a2, src=0x1000, n=8", NOTHING)
    assert len(found) == 16
    assert all("output 'z'" in hazard.what for hazard in found)


@pytest.mark.parametrize("last", [NOTHING, "wdma.fp16 dst=a2, src=0x1000, n=8"])
def test_a_program_that_waits(last: str) -> None:
    assert hazards(NOTHING, last, WAIT) == ()


def test_what_is_left_in_the_scratchpad_is_no_output() -> None:
    assert hazards(WAIT, "ct.add.vv.fp16 dst=0x2000, src0=0x1000, src1=0x1000, n=8", NOTHING) == ()


def test_the_wait_of_another_worker_does_not_help() -> None:
    found = hazards(WAIT, "wdma.fp16 dst=a2, src=0x1000, n=8, worker=1", WAIT)
    assert {hazard.fix for hazard in found} == {f"insert 'ncc.wait worker=1' before p.s:{LINE}"}
    assert hazards(WAIT, "wdma.fp16 dst=a2, src=0x1000, n=8, worker=1", "ncc.wait worker=1") == ()


def test_outputs_that_other_tiles_write_are_theirs() -> None:
    """Tile 0 exits first and has written nothing, so later writes of the others are not its hazards."""
    skip = "csrr t1, mhartid\n beqz t1, 9f\n wdma.fp16 dst=a2, src=0x1000, n=8\n ncc.wait\n 9:"
    assert hazards(WAIT, skip, NOTHING) == ()


def test_a_tile_that_failed_is_looked_at_too() -> None:
    assert hazards(NOTHING, NOTHING, WAIT, status=3) == ()
    assert hazards(NOTHING, NOTHING, NOTHING, status=3)[0].at.name == "exit"


def hazard(tile: int, line: int = 4, other: int | None = None) -> Hazard:
    sites = [Site(number, 0x80000000 + line, "lw", None, "p.s", line) for number in (tile, other or 0)]
    return Hazard("race", sites[0], sites[1] if other is not None else None, "DDR", 0, 1, "reads", "wait")


def test_equal_hazards_are_one_line_with_their_tiles() -> None:
    groups = grouped(
        [hazard(0), hazard(1), hazard(1, line=8), hazard(5), hazard(2, other=2), hazard(3, other=2)]
    )
    assert [(first.at.tile, first.at.line, tiles) for first, tiles in groups] == [
        (0, 4, [1, 5]),
        (1, 8, []),
        (2, 4, []),
        (3, 4, []),
    ]


@pytest.mark.parametrize(
    ("tiles", "end"),
    [
        (16, " (the same on tiles 1..15)\n"),
        (2, " (the same on tile 1)\n"),
        (3, " (the same on tiles 1, 2)\n"),
    ],
)
def test_the_command_says_it_once(
    tiles: int, end: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    end_of_others = f"csrr t1, mhartid\n li t2, {tiles}\n blt t1, t2, 9f\n ncc.wait\n 9:"
    text = PROGRAM.format(between=NOTHING, last=NOTHING, end=end_of_others, status=0)
    image = tmp_path / "p.bin"
    image.write_bytes(write_image(asm.assemble(text, "p.s")))
    assert main(["-q", str(image), "--random", "0", "--strict"]) == 3
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert "unfinished: exit of tile 0 (p.s:" in err
    assert err.endswith(end)
