"""Images of several networks: the directive, the note, the image of one network, and refusals."""

from __future__ import annotations

from dataclasses import replace

import pytest

import asm
from asm.diagnostics import AsmError
from asm.image import EntryPoint, ImageError, image_of_entry, image_parts, read_image, write_image

TEXT = """
        .section .ddr.bss
past:   .space 64
x:      .space 64
        .const  w, fp32, 4, "w.bin"
        .text
first:  li a7, 93
        ecall
second: li a7, 93
        ecall
        .entry_point "read", 0x80000000
        .buffer input, "past", fp32, 16, tensor, float32, 0x280000040
        .buffer output, "now", fp32, 16, tensor, float32, 0x280000040
        .entry_point "write", 0x80000008
        .buffer input, "past", fp32, 16, tensor, float32, 0x280000040
        .buffer input, "x", fp32, 16, tensor, float32, 0x280000080
"""
IMAGE = asm.assemble(TEXT, given={"w.bin": bytes(16)})


def test_each_entry_has_its_address_and_its_buffers() -> None:
    assert [(each.name, each.address) for each in IMAGE.entry_points] == [
        ("read", 0x80000000),
        ("write", 0x80000008),
    ]
    assert [b.name for b in IMAGE.buffers] == ["w"]
    assert IMAGE.entry == 0x80000000
    read, write = (image_of_entry(IMAGE, name) for name in ("read", "write"))
    assert (read.entry, [b.name for b in read.buffers]) == (0x80000000, ["w", "past", "now"])
    assert (write.entry, [b.name for b in write.buffers]) == (0x80000008, ["w", "past", "x"])
    assert read.entry_points == ()
    assert read.segments == write.segments == IMAGE.segments


def test_files_and_texts_of_them_give_the_same_image() -> None:
    data = write_image(IMAGE)
    assert read_image(data, "prog.bin") == IMAGE
    again = asm.assemble(asm.disassemble(IMAGE))
    assert b"".join(image_parts(again)) == data


def test_addresses_are_also_symbols_which_may_be_defined_later() -> None:
    image = asm.assemble(
        """
        .const  w, int8, 16, "w.bin"
        .entry_point "read", first
        .buffer output, "now", fp32, 16, tensor, float32, part
        .entry_point "write", second
        .section .ddr.bss
        .space  64
past:   .space  128
        .equ    part, past + 64
        .text
        nop
first:  ecall
second: ecall
        .buffer input, "x", fp32, 16, tensor, float32, past
        """,
        given={"w.bin": bytes(16)},
    )
    symbols = {name: symbol.address for name, symbol in image.symbols.items()}
    assert [each.address for each in image.entry_points] == [symbols["first"], symbols["second"]]
    assert (image.entry, symbols["first"], symbols["second"]) == (0x80000004, 0x80000004, 0x80000008)
    assert symbols["part"] == symbols["past"] + 64
    buffers = [[(b.name, b.address) for b in each.buffers] for each in image.entry_points]
    assert buffers == [[("now", symbols["part"])], [("x", symbols["past"])]]


def test_an_image_of_one_network_has_no_list_of_them() -> None:
    assert b"entry_points" not in write_image(asm.assemble("ecall\n"))


def test_unknown_entries_are_refused() -> None:
    with pytest.raises(ImageError) as error:
        image_of_entry(IMAGE, "reed")
    assert (
        str(error.value) == "the program has no entry 'reed'; its entries: read, write; did you mean 'read'?"
    )
    with pytest.raises(ImageError, match="no entry 'read'; it has no named entries"):
        image_of_entry(asm.assemble("ecall\n"), "read")


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (replace(IMAGE, entry=0x80000008), "is not that of the first entry point read, 0x80000000"),
        (replace(IMAGE, tile_entries={1: 0x80000000}), "has entries of single tiles"),
        (replace(IMAGE, entry_points=2 * IMAGE.entry_points[:1]), "two entry points read"),
        (
            replace(IMAGE, entry_points=(IMAGE.entry_points[0], EntryPoint("far", 0x90000000))),
            "entry point far 0x90000000 lies in no code",
        ),
        (
            replace(IMAGE, buffers=IMAGE.entry_points[0].buffers),
            "buffer past: in a program with entry points",
        ),
        (
            replace(
                IMAGE,
                entry_points=(replace(IMAGE.entry_points[0], buffers=2 * IMAGE.entry_points[0].buffers[:1]),),
            ),
            "two input buffers past",
        ),
        (
            replace(
                IMAGE,
                entry_points=(
                    replace(
                        IMAGE.entry_points[0],
                        buffers=(replace(IMAGE.entry_points[0].buffers[0], format="f"),),
                    ),
                ),
            ),
            "buffer past: ",
        ),
    ],
)
def test_images_whose_entries_make_no_sense_are_refused(wrong: asm.Image, message: str) -> None:
    with pytest.raises(ImageError) as error:
        write_image(wrong)
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (".entry_point read", '.entry_point takes "NAME", ADDRESS, found 1 arguments'),
        ('.entry_point "a", (first)', ".entry_point: address '(first)': expected a number or a symbol"),
        ('.entry_point "a", third', "symbol third is declared and never defined"),
        ('.entry_point "read", 0x80000000', "entry point read is declared twice"),
        (".buffer input, x, fp32, 16, tensor, -, 0x280000080", "input buffer x is declared twice"),
        (".buffer constant, w, fp32, 4, tensor, -, 0x280000080", "constant buffer w is declared twice"),
    ],
)
def test_mistakes_in_the_text_are_shown(line: str, message: str) -> None:
    with pytest.raises(AsmError) as error:
        asm.assemble(f"{TEXT}{line}\n", given={"w.bin": bytes(16)})
    assert message in str(error.value)
