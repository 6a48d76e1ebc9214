"""The directives of sizes that a run decides, in the image and back."""

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
