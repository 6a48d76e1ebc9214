"""The directives of dynamic sizes, in the image and disassembled."""

from __future__ import annotations

from dataclasses import replace

import pytest

import asm
from asm.diagnostics import AsmError
from asm.image import Dimension, ImageError, read_image, write_image

TEXT = """
        .input  x, fp32, 512x96
        .output y, fp32, 512
        .dimension seq, 1, 128, 512
        .extents input, x, seq, 96
        .extents output, "y", "@1"
        .shapes io.shapes, 2
_start: la      a0, %core(io.shapes)
        ecall
"""


def test_image_and_text_have_the_same() -> None:
    image = asm.assemble(TEXT, "a.s")
    assert image.shapes is not None
    assert image.shapes.dimensions == (Dimension("seq", 1, 128, 512),)
    assert image.shapes.extents == {("input", "x"): ("seq", "96"), ("output", "y"): ("@1",)}
    assert image.shapes.address == image.symbols["io.shapes"].address
    assert read_image(write_image(image), "a.bin") == image
    assert asm.assemble(asm.disassemble(image), "b.s").shapes == image.shapes


def test_a_program_of_one_size_has_nothing_of_it_in_its_note() -> None:
    image = asm.assemble("_start: ecall", "a.s")
    assert image.shapes is None
    assert b"shapes" not in write_image(image)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (".dimension seq, 1, 128", ".dimension takes NAME, LEAST, USUAL, MOST, found 3 arguments"),
        (".dimension seq, 1, x, 3", ".dimension: 'x': expected a number"),
        (".extents const, x, 3", ".extents takes input|output, NAME, EXTENT, ..."),
        (".shapes a, b, c", ".shapes takes NAME, WORDS or ADDRESS"),
    ],
)
def test_mistakes_in_directives(line: str, message: str) -> None:
    with pytest.raises(AsmError) as error:
        asm.assemble(f"_start: ecall\n        {line}\n", "a.s")
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"dimensions": (Dimension("seq", 4, 2, 8),)}, "dimension seq: 4:2:8, expected least:usual:most"),
        ({"address": 16}, "the shape block at 0x10 lies in no DDR window"),
        ({"extents": {("input", "z"): ("seq",)}}, "extents of input z: there is no such buffer"),
        ({"extents": {("input", "x"): ("seq",)}}, "extents of input x: 1, expected 2"),
        ({"extents": {("input", "x"): ("seq", "wide")}}, "extents of input x: 'wide', expected a number"),
    ],
)
def test_damaged_images_are_refused(change: dict[str, object], message: str) -> None:
    image = asm.assemble(TEXT, "a.s")
    assert image.shapes is not None
    with pytest.raises(ImageError) as error:
        write_image(replace(image, shapes=replace(image.shapes, **change)))  # type: ignore[arg-type]
    assert message in str(error.value)


GROWING = """
        .input  past, fp32, 2x9x4
        .output present, fp32, 2x9x4
        .dimension past, 0, 3, 6
        .dimension new, 1, 1, 3
        .extents input, past, 2, past, 4
        .extents output, present, 2, "past + new", 4
        .room   input, past, 1
        .room   output, present, 1
        .shapes io.shapes, 2
_start: ecall
"""


def test_states_that_grow_in_image_and_text() -> None:
    image = asm.assemble(GROWING, "a.s")
    assert image.shapes is not None
    assert image.shapes.room == {("input", "past"): 1, ("output", "present"): 1}
    assert image.shapes.extents["output", "present"] == ("2", "past + new", "4")
    assert read_image(write_image(image), "a.bin") == image
    assert asm.assemble(asm.disassemble(image), "b.s").shapes == image.shapes


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("input, past, 1", "input, past, 3", "room of input past: axis 3, expected an axis of a buffer"),
        ("input, past, 1", "input, pst, 1", "room of input pst: axis 1, expected an axis of a buffer"),
        ("input, past, 1", "input, past, 0", "room of input past: 'past' of 9, expected at most that"),
        ("new, 1, 1, 3", "new, 1, 1, 4", "room of output present: 'past + new' of 9, expected at most that"),
        ('"past + new"', '"past + old"', "extents of output present: 'past + old', expected a number"),
        (
            "new, 1, 1, 3",
            "new, 0, 1, 3",
            "dimension new: 0:1:3, expected least:usual:most, in ascending order",
        ),
    ],
)
def test_room_that_no_buffer_has(old: str, new: str, message: str) -> None:
    with pytest.raises(ImageError) as error:
        write_image(asm.assemble(GROWING.replace("past, 0", "past, 1").replace(old, new), "a.s"))
    assert message in str(error.value)


def test_mistakes_in_the_directive_of_room() -> None:
    with pytest.raises(AsmError) as error:
        asm.assemble("_start: ecall\n        .room x, 1\n", "a.s")
    assert ".room takes input|output, NAME, AXIS" in str(error.value)
