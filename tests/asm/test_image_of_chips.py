"""Sections that replace .ddr on some chips: their addresses, their chips, and refusals."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import asm
from asm.disassembler import disassemble_image
from asm.image import Image, ImageError, image_of_chip, read_image, write_image
from emulator.program import Program
from tx8isa.machine.description import load_machine

SOURCE = """
        .output y, int32, 4
        .const c, int32, 4, "c.bin", 0
        .section .ddr.chips.1.3
        .incbin "c.bin", 16, 16
        .text
        .globl  _start
_start:
        la      t0, c
        la      t1, y
        rdma.int32 dst=0, src=t0, n=4
        wdma.int32 dst=t1, src=0, n=4
        ncc.wait
        li      a0, 0
        li      a7, 93
        ecall
"""
ONE, OTHER = np.arange(4, dtype=np.int32), np.arange(10, 14, dtype=np.int32)


def made(source: str = SOURCE) -> Image:
    return asm.assemble(source, "prog.s", given={"c.bin": ONE.tobytes() + OTHER.tobytes()})


def test_every_chip_finds_its_own_constants() -> None:
    program = Program(read_image(write_image(made()), "prog.bin"), load_machine("tx81").of_chips(2, 2))
    outputs = program.run({})
    for chip in range(4):
        assert np.array_equal(outputs[f"chip{chip}.y"], OTHER if chip % 2 else ONE)


def test_the_section_has_the_addresses_of_the_first() -> None:
    by_name = {segment.section: segment for segment in made().segments}
    own, other = by_name[".ddr"], by_name[".ddr.chips.1.3"]
    assert (own.address, own.size) == (other.address, other.size)


@pytest.mark.parametrize(("chip", "has"), [(1, ".ddr.chips.1.3"), (2, ".ddr"), (3, ".ddr.chips.1.3")])
def test_a_chip_has_one_of_the_two_and_all_that_is_common(chip: int, has: str) -> None:
    common = {segment.section for segment in made().segments} - {".ddr", ".ddr.chips.1.3"}
    assert common
    found = [segment.section for segment in image_of_chip(made(), chip).segments]
    assert sorted(found) == sorted([*common, has])


def test_an_image_without_such_sections_is_that_of_every_chip() -> None:
    image = made(SOURCE.replace(".ddr.chips.1.3", ".rodata"))
    assert image_of_chip(image, 1) is image


@pytest.mark.parametrize(
    ("section", "message"),
    [
        (
            ".ddr.chips.one",
            "segment .ddr.chips.one: expected numbers of chips after .ddr.chips., such as 1.3",
        ),
        (".ddr.chips.1.1", "segment .ddr.chips.1.1: a chip has two segments in place of .ddr"),
    ],
)
def test_wrong_names_are_refused(section: str, message: str) -> None:
    with pytest.raises(ImageError, match=message):
        write_image(made(SOURCE.replace(".ddr.chips.1.3", section)))


def test_another_size_is_refused() -> None:
    image = made()
    longer = [replace(s, size=s.size + 16) if "chips" in s.section else s for s in image.segments]
    with pytest.raises(ImageError, match=r"expected the address, size and flags of \.ddr"):
        write_image(replace(image, segments=tuple(longer)))


def test_the_text_of_the_image_gives_the_same_image() -> None:
    image = read_image(write_image(made()), "prog.bin")
    again = asm.assemble(disassemble_image(image), "prog.s")
    assert [replace(s, data=bytes(s.data)) for s in again.segments] == list(image.segments)
    assert again.symbols["c"].address == image.symbols["c"].address
