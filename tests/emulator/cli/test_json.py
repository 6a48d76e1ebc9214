"""tx8emu --json: one object about a run, by the documented schema; exit statuses do not change."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

import asm
from asm.image import write_image
from emulator.cli import main
from emulator.cli.verdict import Verdict, output_data
from paths import ROOT

PROGRAM = """
.input x, fp32, 4
.output y, fp32, 4
_start: csrr t0, mhartid
    bnez t0, 9f
    rdma.fp32 dst=0x100, src=x, n=4
    ct.add.vv.fp32 dst=0x100, src0=0x100, src1=0x100, n=4
    wdma.fp32 dst=y, src=0x100, n=4
    li a7, 64
    li a0, 1
    la a1, text
    li a2, 6
    ecall
    {wait}
9:  li a0, 0
    li a7, 93
    ecall
    .data
text: .ascii "hello\\n"
"""
Capture = pytest.CaptureFixture[str]


def write(tmp_path: Path, text: str) -> str:
    (tmp_path / "p.bin").write_bytes(write_image(asm.assemble(text, "p.s")))
    return str(tmp_path / "p.bin")


@pytest.fixture
def image(tmp_path: Path) -> str:
    np.save(tmp_path / "x.npy", np.float32([1, -2, np.inf, 4]))
    return write(tmp_path, PROGRAM.format(wait="ncc.wait"))


def run(capsys: Capture, status: int, *arguments: str) -> tuple[dict[str, Any], str]:
    assert main(["-q", *arguments, "--json"]) == status
    printed = capsys.readouterr()
    assert printed.out.count("\n") == 1
    msgspec.json.decode(printed.out, type=Verdict, strict=True)
    return json.loads(printed.out), printed.err


def test_a_run(image: str, tmp_path: Path, capsys: Capture) -> None:
    found, err = run(capsys, 0, image, "--input", f"x={tmp_path / 'x.npy'}")
    assert found == {
        "program": image,
        "status": 0,
        "fault": None,
        "fault_kind": None,
        "fault_category": None,
        "outputs": [
            {
                "name": "y",
                "dtype": "float32",
                "shape": [4],
                "minimum": -4.0,
                "maximum": 8.0,
                "mean": 2.0,
                "not_finite": 1,
            }
        ],
        "hazards": None,
        "hazards_left_out": False,
        "orders": 0,
        "differences": None,
    }
    assert err == "hello\n"


def test_hazards(tmp_path: Path, capsys: Capture) -> None:
    image = write(tmp_path, PROGRAM.format(wait="nop"))
    found, err = run(capsys, 3, image, "--random", "0", "--strict")
    (hazard,) = found["hazards"]
    assert (found["status"], hazard["kind"], hazard["memory"]) == (3, "unfinished", "DDR")
    assert hazard["last"] - hazard["first"] == 15
    assert hazard["at"] == {
        "tile": 0,
        "address": hazard["at"]["address"],
        "instruction": "exit",
        "worker": None,
        "file": "p.s",
        "line": 17,
        "node": None,
        "chip": None,
    }
    assert (hazard["other"]["instruction"], hazard["other"]["worker"]) == ("wdma", 0)
    assert "unfinished: exit of tile 0" in err
    assert len(found["outputs"]) == 1


def test_a_hazard_of_several_tiles_is_one(tmp_path: Path, capsys: Capture) -> None:
    text = """
    _start: td.memset.fp32 dst=0x10000, value=1.5, n=4
        li t1, 0x30410000
        lw t2, 0(t1)
        ncc.wait
        li a0, 0
        li a7, 93
        ecall
    """
    found, _ = run(capsys, 3, write(tmp_path, text), "--strict")
    (hazard,) = found["hazards"]
    assert (hazard["kind"], hazard["at"]["tile"]) == ("unfinished", 0)
    assert hazard["also"] == list(range(1, 16))


def test_no_hazard_is_an_empty_list(image: str, capsys: Capture) -> None:
    assert run(capsys, 0, image, "--random", "0", "--strict")[0]["hazards"] == []


def test_a_fault(image: str, capsys: Capture) -> None:
    found, err = run(capsys, 3, image, "--random", "0", "--max-instructions", "3")
    assert (found["status"], found["outputs"]) == (3, [])
    assert f"{image}: fault: {found['fault']}\n" in err


@pytest.mark.long
def test_orders(image: str, tmp_path: Path, capsys: Capture) -> None:
    found, _ = run(capsys, 0, image, "--random", "0", "--explore", "3")
    assert (found["orders"], found["differences"]) == (3, [])
    race = asm.assemble_file(ROOT / "examples" / "hazards" / "unfinished.s")
    (tmp_path / "race.bin").write_bytes(write_image(race))
    found, err = run(capsys, 3, str(tmp_path / "race.bin"), "--explore", "8")
    assert found["differences"]
    difference = found["differences"][0]
    assert set(difference) == {"order", "where", "at", "hazard"}
    assert difference["hazard"]["kind"] == "unfinished"
    assert difference["where"] in err


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (np.zeros((0, 2), np.float32), (None, None, None, 0)),
        (np.float16([np.nan, np.inf]), (None, None, None, 2)),
        (np.int16([[3, -5]]), (-5.0, 3.0, -1.0, 0)),
        (np.array([True, False]), (0.0, 1.0, 0.5, 0)),
    ],
)
def test_summaries(values: np.ndarray, expected: tuple[float | None, ...]) -> None:
    found = output_data("y", values)
    assert (found.minimum, found.maximum, found.mean, found.not_finite) == expected
    assert (found.shape, found.dtype) == (values.shape, str(values.dtype))


@pytest.mark.parametrize(
    ("option", "named"),
    [
        ("--stats", "--stats"),
        ("--dump-spm", "--dump-spm without a file"),
        ("--dump-ddr=0x280000000:4", "--dump-ddr"),
        ("--dump-tensor=y", "--dump-tensor without a file"),
    ],
)
def test_not_with_what_prints_too(option: str, named: str, image: str, capsys: Capture) -> None:
    with pytest.raises(SystemExit) as left:
        main([image, "--json", option])
    assert left.value.code == 2
    message = f"argument --json: not with {named}, which prints to standard output too"
    assert message in capsys.readouterr().err


def test_with_what_is_written_to_files(image: str, tmp_path: Path, capsys: Capture) -> None:
    file = tmp_path / "y.npy"
    run(
        capsys, 0, image, "--random", "0", "--dump-tensor", f"y={file}", "--output-dir", str(tmp_path / "out")
    )
    assert np.array_equal(np.load(file), np.load(tmp_path / "out" / "y.npy"))


def test_bad_input_gives_no_object(image: str, capsys: Capture) -> None:
    assert main([image, "--json"]) == 1
    assert capsys.readouterr().out == ""


def test_the_page_has_every_key() -> None:
    text = (ROOT / "docs" / "emulator.md").read_text()
    section = text[text.index("## The run as data") : text.index("## Time without data")]
    documented = set(re.findall(r"^\| `(\w+)` \|", section, re.M))
    assert documented == set(Verdict.__struct_fields__)
    schema = msgspec.json.schema(Verdict)["$defs"]
    for record in ("OutputData", "SiteData", "HazardData", "DifferenceData"):
        assert all(f"`{key}`" in section for key in schema[record]["properties"]), record
