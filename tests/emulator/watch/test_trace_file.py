"""The file of a trace: its creation, refusals, and the traces of whole programs."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

import asm
from asm.image import write_image
from emulator import cli, load
from emulator.memory.buffers import travel_dtype
from emulator.timing.slices import Batch
from emulator.watch.trace.sink import CHUNK, Trace
from machine_files import warm_machine
from made_traces import EMPTY, MACHINE, batch, encoded, made, write
from paths import ROOT
from time_slices import Slices, repeated
from trace_reader import Read
from tx8isa.errors import Tx8Error

# --- the file -----------------------------------------------------------------------------


def test_compressed(tmp_path: Path) -> None:
    program = Slices(seed=2, tiles=2, instructions=20)
    batches = list(program.batches())
    for name in ("a.json", "a.json.gz", "b.json.gz"):
        write(tmp_path / name, program.image, batches, program.ends).finish()
    plain = (tmp_path / "a.json").read_bytes()
    assert gzip.decompress((tmp_path / "a.json.gz").read_bytes()) == plain
    assert (tmp_path / "a.json.gz").stat().st_size * 5 < len(plain)
    assert (tmp_path / "b.json.gz").read_bytes() == (tmp_path / "a.json.gz").read_bytes()


def test_how_slices_are_handed_over_makes_no_difference(tmp_path: Path) -> None:
    program = Slices(seed=3, tiles=3, instructions=30)
    batches = list(program.batches())
    assert sum(len(b.slices) for b in batches) < CHUNK
    single = [Batch(*(column[at : at + 1] for column in b)) for b in batches for at in range(len(b.slices))]
    write(tmp_path / "a.json", program.image, batches, program.ends).finish()
    write(tmp_path / "b.json", program.image, single, program.ends).finish()
    assert (tmp_path / "a.json").read_bytes() == (tmp_path / "b.json").read_bytes()


def test_batches_may_be_used_again(tmp_path: Path) -> None:
    trace = Trace(tmp_path / "t.json", EMPTY, MACHINE)
    given = batch({"started": 1000, "ended": 2000})
    trace.take(given)
    given.slices["started"] = given.slices["ended"] = 0
    trace.close([])
    assert [e["ts"] for e in Read(tmp_path / "t.json").slices()] == [0.001]


@pytest.mark.parametrize("name", ["t.json", "t.json.gz"])
def test_a_run_without_slices(tmp_path: Path, name: str) -> None:
    read = made(tmp_path / name, EMPTY, [], [0] * 16)
    assert read.slices() == []
    assert read.summary["slices"] == 0
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_the_file_appears_when_it_is_complete(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    path.write_text("old")
    with Trace(path, EMPTY, MACHINE) as trace:
        trace.take(batch({"started": 0, "ended": 1}))
        assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["t.json"]
    assert path.read_text() == "old"
    with Trace(path, EMPTY, MACHINE) as trace:
        trace.close([])
    assert Read(path).slices() == []


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("none/t.json", "No such file or directory"),
        ("folder", "Is a directory"),
        ("file/t.json", "Not a directory"),
    ],
)
def test_paths_that_cannot_be_written(tmp_path: Path, name: str, reason: str) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    with pytest.raises(Tx8Error) as refused:
        Trace(tmp_path / name, EMPTY, MACHINE)
    assert str(refused.value) == f"{tmp_path / name}: cannot be written: {reason}"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["file", "folder"]


def test_a_full_disk_does_not_disturb_the_run() -> None:
    trace = Trace("/dev/full", EMPTY, MACHINE)
    for _ in range(3):
        trace.take(batch(*({"started": i, "ended": i + 1, "number": i} for i in range(CHUNK))))
    trace.close([])
    with pytest.raises(Tx8Error, match=r"^/dev/full: the trace is lost: No space left on device$"):
        trace.finish()


def resident() -> int:
    """Bytes of memory that this process has now."""
    pages = Path("/proc/self/statm").read_text().split()[1]
    return int(pages) * 4096


@pytest.mark.long
def test_slices_are_not_kept() -> None:
    """A quarter of a million, of 578 bytes each."""
    image, given, _ = encoded(7)
    given = Batch(given.slices[:60], given.ranges[:60], given.fields[:60])
    count = 250_000 // len(given.slices) + 1
    trace = Trace("/dev/null", image, MACHINE)
    before = after = 0
    for turn, each in enumerate(repeated([given], count)):
        trace.take(each)
        if turn == count // 5:
            before = resident()
    after = resident()
    trace.close([])
    trace.finish()
    assert after - before < 24 << 20


# --- programs -----------------------------------------------------------------------------

PROGRAM = """
        .input  x, fp16, 64
        .output y, fp16, 64
_start: csrr    t0, mhartid
        bnez    t0, done
        la      a0, x
        la      a1, y
        .node   "first"
        rdma.fp16 dst=0x10000, src=a0, n=64
        ct.add.vv.fp16 dst=0x20000, src0=0x10000, src1=0x10000, n=64
        .node   "second"
        wdma.fp16 dst=a1, src=0x20000, n=64
        ncc.wait
        .node   ""
done:   li      a0, 0
        li      a7, 93
        ecall
"""
FAULT = PROGRAM.replace(
    "        ncc.wait\n", "        ncc.wait\n        li a0, 0x70000000\n        sb a0, 0(a0)\n"
)


def prepared(folder: Path, text: str = PROGRAM) -> list[str]:
    """Arguments that run a program in a folder."""
    (folder / "prog.s").write_text(text)
    (folder / "prog.bin").write_bytes(write_image(asm.assemble(text, "prog.s")))
    np.save(folder / "x.npy", np.arange(64, dtype=np.float16))
    files = [str(folder / "prog.bin"), "--input", f"x={folder / 'x.npy'}"]
    return [*files, "--output-dir", str(folder / "out"), "-q", "--machine", warm_machine(folder)]


def test_a_program_and_its_trace(tmp_path: Path) -> None:
    path = tmp_path / "t.json.gz"
    assert cli.main([*prepared(tmp_path), "--trace", str(path)]) == 0
    assert (np.load(tmp_path / "out/y.npy") == np.arange(64) * 2).all()
    read = Read(path)
    lines = {number: line for number, line in enumerate(PROGRAM.splitlines(), 1) if "fp16 dst" in line}
    events = sorted(read.engine_slices(), key=lambda e: e["args"]["instruction number"])
    assert [(e["name"], e["cat"], e["args"]["node"], e["args"]["source"]) for e in events] == [
        (line.split()[0], line.split(".")[0].split()[0].upper(), node, f"prog.s:{number}")
        for (number, line), node in zip(lines.items(), ("first", "first", "second"), strict=True)
    ]
    assert [(s["name"], s["args"]["instructions"]) for s in read.slices("node")] == [
        ("first", 2),
        ("second", 1),
    ]
    assert events[1]["args"]["held by instruction"] == 0
    assert [e["name"] for e in read.slices("core")] == ["wait: dependency", "wait: program"]
    assert read.slices("core")[0]["args"]["instruction"] == "ncc.wait"
    assert len(read.arrows()) == sum("held by instruction" in s["args"] for s in read.slices()) >= 2
    assert read.summary["program"] == str(tmp_path / "prog.bin")
    assert {path.name for path in tmp_path.iterdir()} == {
        "prog.s",
        "prog.bin",
        "x.npy",
        "out",
        "t.json.gz",
        "warm.toml",
    }


def test_threads_of_the_host_make_no_difference(tmp_path: Path) -> None:
    text = (ROOT / "examples/assembly/allgather_ring.s").read_text()
    (tmp_path / "prog.bin").write_bytes(write_image(asm.assemble(text, "ring.s")))
    program = load(tmp_path / "prog.bin")
    inputs = {b.name: np.zeros(b.shape, dtype=travel_dtype(b)) for b in program.inputs}
    for threads in (1, 2, 4):
        trace = Trace(tmp_path / f"{threads}.json", program.image, program.machine, "ring")
        program.start(inputs, threads=threads, sinks=[trace]).run()
        trace.finish()
    one = (tmp_path / "1.json").read_bytes()
    assert (tmp_path / "2.json").read_bytes() == (tmp_path / "4.json").read_bytes() == one
    read = Read(tmp_path / "1.json")
    assert len(read.slices("arriving")) == len(read.slices("DTE")) > 100


def test_a_program_that_faults_leaves_a_trace(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "t.json"
    assert cli.main([*prepared(tmp_path, FAULT), "--trace", str(path)]) == 3
    assert "fault: " in capsys.readouterr().err
    assert [e["cat"] for e in Read(path).engine_slices()] == ["RDMA", "CT", "WDMA"]


def test_a_run_that_is_cut_off_leaves_a_trace(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "t.json"
    assert cli.main([*prepared(tmp_path), "--trace", str(path), "--max-instructions", "12"]) == 3
    assert "the limit given" in capsys.readouterr().err
    assert [e["cat"] for e in Read(path).engine_slices()] == ["RDMA", "CT"]


def test_no_run_when_the_trace_cannot_be_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "none" / "t.json"
    assert cli.main([*prepared(tmp_path), "--trace", str(path)]) == 1
    assert capsys.readouterr().err == (
        f"tx8emu: error: {path}: cannot be written: No such file or directory\n"
    )
    assert not (tmp_path / "out/y.npy").exists()


def test_a_lost_trace_costs_no_results(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([*prepared(tmp_path), "--trace", "/dev/full"]) == 1
    said = "tx8emu: error: /dev/full: the trace is lost: No space left on device\n"
    assert capsys.readouterr().err == said
    assert (np.load(tmp_path / "out/y.npy") == np.arange(64) * 2).all()
    assert cli.main([*prepared(tmp_path, FAULT), "--trace", "/dev/full"]) == 3
    assert capsys.readouterr().err.endswith(said)


def test_input_that_is_refused_leaves_no_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = prepared(tmp_path)
    np.save(tmp_path / "x.npy", np.zeros(3))
    before = {path.name for path in tmp_path.iterdir()}
    assert cli.main([*arguments, "--trace", str(tmp_path / "t.json")]) == 1
    assert "input 'x'" in capsys.readouterr().err
    assert {path.name for path in tmp_path.iterdir()} - {"out"} == before
