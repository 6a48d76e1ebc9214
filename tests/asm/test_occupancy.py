""".live and .dead: their records in the image, their disassembly, and refusals."""

from __future__ import annotations

import pytest

import asm
from asm.diagnostics import AsmError
from asm.image import LiveRange, read_image, write_image

PROGRAM = """
        .equ x, 0x10000
_start: li a0, 1
        .live "p.x", input, x, 8192, "conv \\"1\\""
        rdma.fp16 dst=x, src=0x280000000, n=4096
        .live "p y", output, x + 8192, 2 * 4096
        ct.add.vv.fp16 dst=x+8192, src0=x, src1=x, n=4096
        .dead "p.x"
        .live "z", value, x, 256
        wdma.fp16 dst=0x280000000, src=x+8192, n=4096
        .dead "p y"
        .dead "z"
"""
BASE = 0x8000_0000


def instructions(text: str) -> list[int]:
    """Return the addresses of the instructions, and the address after the last one."""
    image = asm.assemble(text)
    return [*image.lines, BASE + len(image.segments[0].data)]


def test_ranges_lie_between_the_directives() -> None:
    load, add, store, end = instructions(PROGRAM)[1:]
    found = list(asm.assemble(PROGRAM).live)
    assert found == [
        LiveRange("p.x", "input", 'conv "1"', 0x10000, 8192, load, store),
        LiveRange("p y", "output", "", 0x12000, 8192, add, end),
        LiveRange("z", "value", "", 0x10000, 256, store, end),
    ]


def test_no_byte_of_the_program_changes() -> None:
    bare = "".join(
        f"{line}\n" for line in PROGRAM.splitlines() if ".live" not in line and ".dead" not in line
    )
    image, without = asm.assemble(PROGRAM), asm.assemble(bare)
    assert image.segments == without.segments
    assert image.symbols == without.symbols
    assert list(without.live) == []


def test_they_come_back_from_a_file_and_from_text() -> None:
    image = asm.assemble(PROGRAM)
    data = write_image(image)
    assert list(read_image(data, "prog.bin").live) == list(image.live)
    again = asm.assemble(asm.disassemble(read_image(data, "prog.bin")))
    assert write_image(again) == data


def test_sections_have_ranges_of_their_own() -> None:
    text = """
        .live "a", weights, 0, 256
        nop
        .section .text.hot, "ax"
        .live "b", weights, 256, 256
        nop
        .dead "b"
        .text
        nop
        .dead "a"
"""
    one, other = asm.assemble(text).live
    assert (one.name, one.end - one.begin, other.name, other.end - other.begin) == ("a", 8, "b", 4)


REFUSED = [
    ('.live "a", weights, 0\nnop', '.live takes "NAME", ROLE, ADDRESS, BYTES[, "NODE"]'),
    (".live a, weights, 0, 4\nnop", '.live takes "NAME", ROLE, ADDRESS, BYTES[, "NODE"]'),
    ('.live "a", weights, 0, 4, node\nnop', '.live takes "NAME", ROLE, ADDRESS, BYTES[, "NODE"]'),
    ('.live "a", scratch, 0, 4\nnop', ".live: role 'scratch'"),
    ('.live "a", value, 0, 0\nnop', ".live: 0 bytes from 0x0 are not in the 0x300000 bytes of the SPM"),
    (
        '.live "a", value, 0x2fff00, 257\nnop',
        ".live: 257 bytes from 0x2fff00 are not in the 0x300000 bytes of the SPM",
    ),
    ('.live "a", value, -1, 4\nnop', ".live: 4 bytes from -0x1 are not in the 0x300000 bytes of the SPM"),
    ('.live "a", value, 0, 4\nnop\n.live "a", value, 64, 4\nnop\n.dead "a"', ".live: 'a' is alive already"),
    ('.live "a", value, 0, 4\nnop', ".live: 'a' has no .dead"),
    (
        '.live "a", value, later, 4\nnop\nlater:\n.dead "a"',
        "the value must be known here, found later, which is not defined above",
    ),
    ('.data\n.live "a", value, 0, 4', ".live in section .data"),
    ('.live "a", value, 0, 4\nnop\n.data\n.dead "a"', ".dead in section .data"),
    ('nop\n.dead "a"', ".dead: 'a' is not alive"),
    ("nop\n.dead a", '.dead takes one string, as .dead "text"'),
    ('nop\n.live "a", value, 0, 4\n.dead "a"', ".dead: no instruction of .text since .live at <text>:2"),
]


@pytest.mark.parametrize(("text", "message"), REFUSED, ids=[message[:40] for _, message in REFUSED])
def test_refusals(text: str, message: str) -> None:
    with pytest.raises(AsmError) as refused:
        asm.assemble(text)
    assert refused.value.diagnostics[0].message == message


@pytest.mark.parametrize("first", [0, 255, 256, 511, 100, 300])
@pytest.mark.parametrize("size", [1, 100, 600])
def test_two_ranges_never_share_bytes(first: int, size: int) -> None:
    """Beside two that are alive, at 0..255 and 512..767."""
    text = f"""
        .live "a", value, 0, 256
        .live "b", value, 512, 256
        nop
        .live "c", value, {first}, {size}
        nop
        .dead "a"
        .dead "b"
        .dead "c"
"""
    taken = {*range(256), *range(512, 768)} & {*range(first, first + size)}
    if not taken:
        assert len(asm.assemble(text).live) == 3
        return
    with pytest.raises(
        AsmError, match=rf"\.live: {first:#x}\.\.{first + size - 1:#x} hold '[ab]'"
    ) as refused:
        asm.assemble(text)
    found = refused.value.diagnostics[0]
    line = {"a": 2, "b": 3}[found.message[-2]]
    assert found.notes == (f"help: since <text>:{line}; end it with .dead",)
