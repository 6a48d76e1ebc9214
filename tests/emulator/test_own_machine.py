"""An image stores the machine that it was made for, and runs on no other."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

import asm
import emulator
import tx8
from asm.disassembler import disassemble_image
from asm.image import Image, read_image, write_image
from emulator.cli import main
from tx8isa.machine.description import TX81, Machine, MachineError, load_machine

PROGRAM = """
.output y, fp32, 4
_start: csrr t0, mhartid
    bnez t0, 9f
    td.memset.fp32 dst=0x100, value=0x3f800000, n=4
    wdma.fp32 dst=y, src=0x100, n=4
9:  ncc.wait
    li a0, 0
    li a7, 93
    ecall
"""
SMALL = (
    TX81.read_text()
    .replace('name = "tx81"', 'name = "small"')
    .replace("y = 4", "y = 2", 1)
    .replace("bytes = 0x30_0000", "bytes = 0x20_0000", 1)
    .replace("reserved = 0x2F_0000", "reserved = 0x1F_0000", 1)
)


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """The description of a chip of 4 x 2 tiles of 2 MB."""
    path = tmp_path / "small.toml"
    path.write_text(SMALL)
    machine = load_machine(path)
    assert (machine.name, machine.tiles, machine.spm.bytes) == ("small", 8, 2 << 20)
    return path


def write(path: Path, made_for: Machine, **changes: Any) -> Path:
    path.write_bytes(write_image(replace(asm.assemble(PROGRAM, machine=made_for), **changes)))
    return path


@pytest.fixture
def small_image(small: Path, tmp_path: Path) -> Path:
    return write(tmp_path / "small.bin", load_machine(small))


@pytest.fixture
def tx81_image(tmp_path: Path) -> Path:
    return write(tmp_path / "tx81.bin", load_machine(None))


def test_without_an_option_an_image_runs_on_its_own_machine(small: Path, small_image: Path) -> None:
    program = emulator.load(small_image)
    assert program.machine == load_machine(small)
    assert program.run()["y"].tolist() == [1.0] * 4
    assert tx8.load(small_image).machine.name == "small"
    assert main(["-q", str(small_image)]) == 0


def test_the_tiles_are_those_of_the_image(small_image: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main([str(small_image), "--dump-spm", "--tile", "8"])
    assert left.value.code == 2
    assert "argument --tile: 8 is outside 0..7" in capsys.readouterr().err


def test_another_machine_is_refused_in_one_line(
    small: Path, small_image: Path, tx81_image: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(tx81_image), "--machine", str(small)]) == 1
    assert capsys.readouterr().err == (
        f"tx8emu: error: {tx81_image}: the program was made for machine tx81: grid.y is 4, 2 on small "
        "(and 2 more); run it without --machine, on its own, or make it anew for small\n"
    )
    assert main([str(small_image), "--machine", str(TX81)]) == 1
    assert "made for machine small: grid.y is 2, 4 on tx81 (and 2 more)" in capsys.readouterr().err
    with pytest.raises(MachineError, match=r"was made for machine small: grid.y is 2"):
        emulator.load(small_image, load_machine(None))
    with pytest.raises(MachineError, match=r"was made for machine tx81: grid.y is 4"):
        tx8.load(tx81_image, machine=small)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("workers = 3", "workers = 2", "tile.workers is 3, 2 on other"),
        ("bytes = 0x10_0000_0000", "bytes = 0x8_0000_0000", "ddr.bytes is 0x1000000000, 0x800000000"),
    ],
)
def test_what_must_agree(old: str, new: str, message: str, tx81_image: Path, tmp_path: Path) -> None:
    text = TX81.read_text()
    assert text.count(old) == 1
    path = tmp_path / "other.toml"
    path.write_text(text.replace('name = "tx81"', 'name = "other"').replace(old, new))
    with pytest.raises(MachineError) as refused:
        emulator.load(tx81_image, load_machine(path))
    assert message in str(refused.value)


def test_a_machine_that_is_only_faster_is_taken(tx81_image: Path) -> None:
    machine = load_machine(None)
    fast = msgspec.structs.replace(machine, name="fast", queues=msgspec.structs.replace(machine.queues, ct=1))
    assert emulator.load(tx81_image, fast).run()["y"].tolist() == [1.0] * 4


def test_a_machine_that_is_not_described(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    image = write(tmp_path / "p.bin", load_machine(None), machine="mini")
    assert main([str(image)]) == 1
    assert capsys.readouterr().err == (
        f"tx8emu: error: {image}: the program was made for machine mini, which it does not describe: "
        "give its description with --machine\n"
    )
    assert main(["-q", str(image), "--machine", str(TX81)]) == 0


def test_a_description_that_is_none(tmp_path: Path) -> None:
    image = write(tmp_path / "p.bin", load_machine(None), machine={"name": "mini", "grid": {"x": 0}})
    with pytest.raises(MachineError, match=r"p\.bin: the machine description in the image: .*grid\.x"):
        emulator.load(image)


def test_an_image_describes_its_machine_unless_that_is_packaged(small_image: Path, tx81_image: Path) -> None:
    said: list[Image] = [read_image(path.read_bytes(), "p") for path in (small_image, tx81_image)]
    assert isinstance(said[0].machine, dict)
    assert said[0].machine["spm"]["bytes"] == 2 << 20
    assert said[1].machine == "tx81"
    assert '.machine "small"' in disassemble_image(said[0])
