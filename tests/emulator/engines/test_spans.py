"""The bytes after results of CT and NE: unchanged, or poison up to the end of the last line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import asm
from asm.image import write_image
from chip_bench import ONE, build
from emulator import load
from emulator.cli import main
from emulator.engines.marks import POISON
from emulator.tile.fault import Fault
from tx8isa.table.registry import by_mnemonic

RESET = ONE.spm.reset_byte
GEMM_END = 0x440 + by_mnemonic()["ne.gemm"].operand("out").extent.length(16, 1, 4, 1, 1)  # type: ignore[union-attr]
"""The first byte after the padded image of the product at 0x440."""
ZEROS = "td.memset.fp32 dst=0, value=0, n=256\n ncc.wait\n"


def spm(text: str, write_span: str) -> np.ndarray:
    system = build(f"_start: {ZEROS}{text}\n ebreak", write_span=write_span)
    with pytest.raises(Fault, match="ebreak"):
        system.run()
    return system.tiles[0].spm.data


@pytest.mark.parametrize(
    ("text", "ends"),
    [
        ("ct.abs.v.fp32 dst=0x400, src0=0, n=3", [(0x40C, 0x500)]),
        ("ct.abs.v.fp32 dst=0x440, src0=0, n=48", []),
        ("ct.abs.v.fp32 dst=0x440, src0=0, n=49", [(0x504, 0x600)]),
        ("ct.abs.v.fp32 dst=0x4fc, src0=0, n=1", []),
        ("ct.cvt.fp32.fp16 dst=0x3ff0, src0=0, n=4", [(0x3FF8, 0x4000)]),
        (
            "ct.abs.v.fp16 dst=0x400, src0=0, n=3\n ct.abs.v.fp16 dst=0x600, src0=0, n=1",
            [(0x406, 0x500), (0x602, 0x700)],
        ),
        ("ct.factorize dst=0x410, dst1=0x400, dst2=0x420, src0=0, n=4", [(0x410, 0x500)]),  # in one line
        ("ne.gemm.fp16 a=0, b=0x100, out=0x440, m=1, k=4, n=4", [(GEMM_END, 0x600)]),
        ("td.memset.fp32 dst=0x400, value=0, n=3", []),
        ("rdma.fp32 dst=0x400, src=0x280200000, n=3", []),
        ("wdma.fp32 dst=0x280200000, src=0, n=3", []),
        ("sc.recip.fp32 src=2.0", []),
    ],
)
def test_poison_fills_the_rest_of_the_line(text: str, ends: list[tuple[int, int]]) -> None:
    exact, hostile = spm(text, "exact"), spm(text, "hostile")
    poisoned = np.zeros(exact.size, bool)
    for first, end in ends:
        poisoned[first:end] = True
    assert (hostile[poisoned] == POISON).all() and POISON != RESET
    np.testing.assert_array_equal(hostile[~poisoned], exact[~poisoned])
    assert not (exact == POISON).any()


def test_the_result_itself_is_untouched_in_place() -> None:
    text = "td.memset.fp32 dst=0, value=-2.0, n=70\n ct.abs.v.fp32 dst=0, src0=0, n=70"
    found = spm(text, "hostile")
    assert (found[:280].view(np.float32) == 2.0).all() and (found[280:512] == POISON).all()
    assert (found[512:1024] == 0).all()


PROGRAM = """
        .output y, fp32, 4
        la      a1, y
        td.memset.fp32 dst=0x10000, value=1.5, n=64
        ncc.wait
        ct.add.vv.fp32 dst=0x10000, src0=0x10000, src1=0x10000, n=1
        wdma.fp32 dst=a1, src=0x10000, n=4
        ncc.wait
        li      a0, 0
        li      a7, 93
        ecall
"""
"""Keeps live data after a result."""


def test_from_python_and_from_the_command_line(tmp_path: Path) -> None:
    path = tmp_path / "live.bin"
    path.write_bytes(write_image(asm.assemble(PROGRAM)))
    bad = np.frombuffer(bytes([POISON] * 4), np.float32)[0]
    expected = {"exact": [3.0, 1.5, 1.5, 1.5], "hostile": [3.0, bad, bad, bad]}
    for span, values in expected.items():
        assert load(path).run(write_span=span)["y"].tolist() == values  # type: ignore[arg-type]
        assert main([str(path), "-q", "--write-span", span, "--output-dir", str(tmp_path)]) == 0
        assert np.load(tmp_path / "y.npy").tolist() == values


def test_another_word_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["x.bin", "--write-span", "friendly"])
    assert "invalid choice: 'friendly'" in capsys.readouterr().err
