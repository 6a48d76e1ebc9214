"""Files of large programs, which sessions map."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import asm
from asm.image import ImageError, write_image
from chip_bench import chip
from emulator import load
from emulator.memory.image_file import LEAST, ImageFile, bytes_of
from emulator.session import ProgramSession

TEXT = f"""
        .output y, int8, 16
        .const  w, int8, {2 * LEAST}, "w.bin"
_start: la      a0, w + {LEAST}
        la      a1, y
        rdma.int8 dst=0, src=a0, n=16
        wdma.int8 dst=a1, src=0, n=16
        ncc.wait
        li      a0, 0
        li      a7, 93
        ecall
"""
WEIGHTS = np.random.default_rng(2).integers(-128, 128, 2 * LEAST, dtype=np.int8)
MACHINE = chip(1, 0x4000)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    image = asm.assemble(TEXT, machine=MACHINE, given={"w.bin": WEIGHTS.tobytes()})
    (tmp_path / "prog.bin").write_bytes(write_image(image))
    return tmp_path / "prog.bin"


def test_constants_of_a_program_are_views_of_its_file_in_memory(file: Path) -> None:
    program = load(file)
    (data,) = (segment.data for segment in program.image.segments if segment.section == ".ddr")
    assert isinstance(data, memoryview)
    assert isinstance(data.obj, ImageFile)
    assert data == WEIGHTS.tobytes()


def test_sessions_do_not_see_what_becomes_of_the_file(file: Path) -> None:
    program = load(file)
    file.write_bytes(b"something else")
    with ProgramSession(program) as session, ProgramSession(program) as other:
        for each in (session, other, session):
            assert (each.run()["y"] == WEIGHTS[LEAST : LEAST + 16]).all()


def test_a_damaged_large_file_is_refused(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    with pytest.raises(ImageError, match=r"corrupted image: \.ddr does not match its checksum"):
        load(file)
    file.write_bytes(data[: LEAST + 4096])
    with pytest.raises(ImageError, match="truncated image"):
        load(file)


def test_small_files_are_bytes(tmp_path: Path) -> None:
    (tmp_path / "small").write_bytes(b"12")
    assert bytes_of(tmp_path / "small") == b"12"
    with pytest.raises(OSError, match="No such file"):
        bytes_of(tmp_path / "none")
