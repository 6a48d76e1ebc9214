"""The report of a run has the addresses that a program gives: of SPM from 0, of DDR in the engines' view."""

from __future__ import annotations

from pathlib import Path

import pytest

import asm
from asm.image import read_image, write_image
from emulator.cli import main
from report_page import embedded

PROGRAM = """
        .input  x, fp16, 256
        .output y, fp16, 256
_start: csrr    t0, mhartid
        bnez    t0, done
        la      t1, x
        la      t2, y + 64
        rdma.fp16 dst=0x10080, src=t1, n=224
        ct.abs.v.fp16 dst=0x2f000, src0=0x10080, n=224
        wdma.fp16 dst=t2, src=0x2f000, n=224
        rdma.fp16 dst=0x10080, src=t1, n=224
        ncc.wait
done:   li      a7, 93
        ecall
"""
"""The last load touches the first byte of SPM and DDR that the first one does."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with its page."""
    path = tmp_path_factory.mktemp("run")
    (path / "prog.bin").write_bytes(write_image(asm.assemble(PROGRAM, "prog.s")))
    assert main([str(path / "prog.bin"), "-q", "--random", "0", f"--report={path / 'page.html'}"]) == 0
    return path


def expected(folder: Path) -> list[str]:
    """The texts of the engine instructions: addresses of buffers from the image, others as written."""
    buffers = read_image((folder / "prog.bin").read_bytes(), "prog.bin").buffers
    x, y = (next(buffer.address for buffer in buffers if buffer.name == name) for name in "xy")
    assert min(x, y) >= 0x2_8000_0000
    return [
        f"rdma.fp16 dst=0x10080, src={x:#x}, n=224",
        "ct.abs.v.fp16 dst=0x2f000, src0=0x10080, n=224",
        f"wdma.fp16 dst={y + 64:#x}, src=0x2f000, n=224",
        f"rdma.fp16 dst=0x10080, src={x:#x}, n=224",
    ]


def test_lines_of_the_page_have_whole_addresses(folder: Path) -> None:
    content, _ = embedded((folder / "page.html").read_text())
    texts = [line["text"] for line in content["lines"] if "dma" in line["text"] or "ct." in line["text"]]
    assert texts == expected(folder)
