"""Damaged images with valid checksums, executables with damaged headers: read, loaded and run."""

from __future__ import annotations

import io
import os
import struct
from functools import cache
from pathlib import Path
from random import Random
from zlib import crc32

import numpy as np
from elftools.elf.elffile import ELFFile

import asm
from asm.image import Image, Segment, read_image, write_image
from chip_bench import chip
from emulator.chip.system import System
from emulator.memory.buffers import travel_dtype
from emulator.program import Program
from emulator.tile.fault import Fault
from fuzz_instructions import EDGES, MACHINE
from plain_images import executable
from tx8isa.errors import Tx8Error
from tx8isa.machine.description import Machine

WHOLE = chip()
"""Programs of C put their stack at the end of an SPM of the usual size."""
TEXT = """
        .input  x, fp16, 1x2x3x5, cx
        .output y, fp32, 8
        .section .rodata, "a"
        .float 1.0, 2.0
        .text
_start: csrr    t0, mhartid
        la      a0, x
        la      a1, y
        td.memset.fp32 dst=0x10000, value=1.5, n=8
        ct.add.vv.fp32 dst=0x10000, src0=0x10000, src1=0x10000, n=8
        wdma.fp32 dst=a1, src=0x10000, n=8
        ncc.wait
        li      a0, 0
        li      a7, 93
        ecall
"""


@cache
def image() -> bytes:
    return write_image(asm.assemble(TEXT))


@cache
def note_end() -> int:
    section = ELFFile(io.BytesIO(image())).get_section_by_name(".note.tx8")
    return int(section["sh_offset"] + section["sh_size"])


def sealed(data: bytes) -> bytes:
    """Give data a valid checksum, as a dishonest writer would."""
    end = note_end()
    if len(data) < end:
        return data
    blank = data[: end - 4] + bytes(4) + data[end:]
    return blank[: end - 4] + struct.pack("<I", crc32(blank)) + blank[end:]


def damaged(data: bytes, rng: Random) -> bytes:
    """Some bytes, words or 8-byte numbers are replaced, but not in the padding; the file may be truncated."""
    file = bytearray(data)
    if rng.random() < 0.4:  # another number in the description of the image
        start = data.find(b'{"')
        digits = [i for i in range(max(start, 0), len(file)) if 48 <= file[i] < 58 and start >= 0]
        for at in rng.sample(digits, min(rng.randint(1, 3), len(digits))):
            file[at] = rng.choice(b"0123456789")
        return bytes(file)
    used = np.convolve(np.frombuffer(data, np.uint8) != 0, np.ones(32), "same")
    places = np.flatnonzero(used).tolist()
    for _ in range(rng.choice((1, 1, 2, 4))):
        at = rng.choice(places) if rng.random() < 0.5 else rng.randrange(min(len(file), 400))  # the headers
        kind = rng.randrange(4)
        if kind == 0:
            file[at] ^= 1 << rng.randrange(8)
        elif kind == 1:
            file[at] = rng.randrange(256)
        else:
            size = rng.choice((2, 4, 8))
            at -= at % size
            edge = rng.choice((*EDGES, rng.getrandbits(64))) & (1 << 8 * size) - 1
            file[at : at + size] = edge.to_bytes(size, "little")
    return bytes(file[: rng.randrange(len(file))] if rng.random() < 0.1 else file)


def run(loaded: Image, machine: Machine = MACHINE) -> str:
    """Read all tables, give every input zeros, run a little."""
    for table in (loaded.lines, loaded.nodes, loaded.symbols, loaded.data_ranges):
        len(table)
    program = Program(loaded, machine)
    inputs = {
        b.name: np.zeros(b.shape, travel_dtype(b))
        for b in program.inputs
        if np.prod(b.shape, dtype=object) < 1 << 20
    }
    program.run(inputs, max_instructions=500)
    return "ended"


def random_segments(rng: Random) -> Image:
    """Segments of any size anywhere in the windows and outside of them."""
    windows = MACHINE.windows
    segments = []
    for number in range(rng.randint(1, 4)):
        base = rng.choice((windows.ddr_cached, windows.ddr_uncached, windows.ddr_engine, 0))
        address = base + rng.choice((0, 4, rng.randrange(1 << 22), rng.randrange(1 << 33)))
        data = rng.randbytes(rng.choice((0, 1, 4, 6, 64, 4096)))
        size = len(data) + rng.choice((0, 0, 1, 1 << 12, 1 << 40))
        segments.append(Segment(f".s{number}", address, data, size, rng.choice(("rx", "rx", "rw", "r"))))
    return Image(rng.choice(segments).address & ~rng.choice((0, 3)), tuple(segments))


def example(rng: Random) -> str:
    """An image with a description that is damaged, or random segments."""
    try:
        if rng.random() < 0.3:
            found = random_segments(rng)
            if rng.random() < 0.5:
                found = read_image(write_image(found), "a.bin")
            System(found, MACHINE).run(500)
            return "ended"
        return run(read_image(sealed(damaged(image(), rng)), "a.bin"))
    except (Fault, Tx8Error) as error:
        assert "\n" not in str(error)
        return str(error)


@cache
def compiled() -> bytes:
    """An executable that a compiler made: the file named by $FUZZ_EXECUTABLE; empty when there is none."""
    name = os.environ.get("FUZZ_EXECUTABLE")
    return Path(name).read_bytes() if name else b""


def executable_example(rng: Random) -> str:
    """A linked program: a compiler's, or a small one."""
    file = compiled() or bytes(executable(extra=rng.choice((0, 12, 1 << 20))))
    try:
        return run(read_image(damaged(file, rng), "a.elf"), WHOLE)
    except (Fault, Tx8Error) as error:
        assert "\n" not in str(error)
        return str(error)
