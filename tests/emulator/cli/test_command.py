"""tx8emu: its output and files, and one line for every mistake."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import asm
from asm.image import read_image, write_image
from emulator import native
from emulator.cli import main
from emulator.native import store
from machine_code import needs_jit
from tx8isa.machine import description
from tx8isa.tools.cache_folder import SECRET

EXIT = "\n ncc.wait\n li a0, 0\n li a7, 93\n ecall\n"
MAIN = [sys.executable, "-c", "import sys; from emulator.cli import main; sys.exit(main())"]
Capture = pytest.CaptureFixture[str]

DOUBLER = """
.input x, fp32, 4
.output y, fp32, 4
.text
_start: csrr t0, mhartid
    bnez t0, 9f
    rdma.fp32 dst=0x100, src=x, n=4
    ct.add.vv.fp32 dst=0x200, src0=0x100, src1=0x100, n=4
    wdma.fp32 dst=y, src=0x200, n=4
9:
"""
FILLER = (
    "_start: csrr t0, mhartid\n addi t1, t0, 0x41\n slli t2, t0, 8\n td.memset.int8 dst=t2, value=t1, n=300\n"
)
FAULTY = "_start: td.memset.int32 dst=0x100, value=1, n=4\n li a0, 0x300000\n"
FAULTY += "td.memset.int32 dst=a0, value=1, n=4\n"


def assembled(folder: Path, text: str, name: str = "p.bin") -> str:
    path = folder / name
    path.write_bytes(write_image(asm.assemble(text + EXIT, name="p.s")))
    return str(path)


@pytest.fixture
def doubler(tmp_path: Path) -> str:
    np.save(tmp_path / "x.npy", np.arange(4, dtype=np.float32))
    return assembled(tmp_path, DOUBLER)


def failure(capsys: Capture, *arguments: str) -> str:
    """Return the only line on stderr of a run whose input is wrong."""
    assert main(["-q", *arguments]) == 1
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1 and err.startswith("tx8emu: error: ")
    return err[len("tx8emu: error: ") : -1]


def usage(capsys: Capture, *arguments: str) -> str:
    with pytest.raises(SystemExit) as status:
        main(["-q", *arguments])
    assert status.value.code == 2
    out, err = capsys.readouterr()
    assert out == "" and "Traceback" not in err
    return err.splitlines()[-1]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--trace", "p.bin"], "p.bin: --trace would replace the program"),
        (["--trace", "./x.npy"], "./x.npy: --trace would replace an array of --input"),
        (["--trace", "h.html", "--html", "h.html"], "h.html: --trace and --html name the same file"),
        (["--dump-spm=p.bin"], "p.bin: --dump-spm would replace the program"),
        (["--save-state", "p.bin", "--at", "3"], "p.bin: --save-state would replace the program"),
        (["--trace", "t.json", "--report", "t.json"], "t.json: --trace and --report name the same file"),
        (["--trace", "t", "--dump-spm=./t"], "./t: --trace and --dump-spm name the same file"),
        (["--output-dir", ".", "--trace", "y.npy"], "y.npy: output 'y' in --output-dir and --trace name the"),
        (["--output-dir", "sub"], "sub/y.npy: output 'y' in --output-dir would replace an array of --input"),
        (["--machine", "own.toml", "--trace", "own.toml"], "own.toml: --trace would replace the machine"),
    ],
)
def test_no_file_of_a_run_is_written_over_another(
    doubler: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Capture,
    options: list[str],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "y.npy").hardlink_to("x.npy")
    machines = Path(description.__file__).with_name("machines")
    shutil.copy(machines / "tx81.toml", "own.toml")
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert failure(capsys, "p.bin", "--input", "x=x.npy", *options).startswith(message)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_a_saved_state_is_not_written_over_itself(
    doubler: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["-q", "p.bin", "--input", "x=x.npy", "--save-state", "s", "--at", "3"]) == 0
    capsys.readouterr()
    found = failure(capsys, "p.bin", "--load-state", "s", "--save-state", "s", "--at", "5")
    assert found == "s: --save-state would replace the state of --load-state; name another file"


# -- successful runs ---------------------------------------------------------------------------------------


def test_inputs_and_outputs(doubler: str, tmp_path: Path, capsys: Capture) -> None:
    out = tmp_path / "a" / "b"
    assert main([doubler, "--input", f"x={tmp_path / 'x.npy'}", "--output-dir", str(out)]) == 0
    assert capsys.readouterr() == ("", "")
    assert [p.name for p in out.iterdir()] == ["y.npy"]
    y = np.load(out / "y.npy")
    assert y.dtype == np.float32 and y.tolist() == [0, 2, 4, 6]
    assert (out / "y.npy").stat().st_mode & 0o777 == 0o666 & ~_umask()


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_dump_spm(tmp_path: Path, capsys: Capture) -> None:
    program = assembled(tmp_path, FILLER)
    assert main([program, "--dump-spm", "--tile", "2"]) == 0
    filled = "43 43 43 43 43 43 43 43"
    reset = "ff ff ff ff ff ff ff ff"
    assert capsys.readouterr().out.splitlines() == [
        "tile 2 SPM",
        f"00000200  {filled}  {filled}  |CCCCCCCCCCCCCCCC|",
        "*",
        "00000320  43 43 43 43 43 43 43 43  43 43 43 43 ff ff ff ff  |CCCCCCCCCCCC....|",
        f"00000330  {reset}  {reset}  |................|",
        "*",
        f"000003f0  {reset}  {reset}  |................|",
        "00000400",
    ]
    assert main([program, "--dump-spm"]) == 0
    assert [line for line in capsys.readouterr().out.splitlines() if "SPM" in line] == [
        f"tile {t} SPM" for t in range(16)
    ]


def test_dump_spm_of_one_tile_as_raw_bytes(tmp_path: Path, capsys: Capture) -> None:
    program, raw = assembled(tmp_path, FILLER), tmp_path / "spm.raw"
    for options, tile in (([], 0), (["--tile", "5"], 5)):
        assert main([program, f"--dump-spm={raw}", *options]) == 0
        assert capsys.readouterr().out == ""
        data = raw.read_bytes()
        assert len(data) == 3 << 20
        assert data == b"\xff" * (256 * tile) + bytes([0x41 + tile]) * 300 + b"\xff" * (
            (3 << 20) - 256 * tile - 300
        )


def test_an_untouched_spm_prints_nothing(tmp_path: Path, capsys: Capture) -> None:
    assert main([assembled(tmp_path, "_start: nop"), "--dump-spm"]) == 0
    assert capsys.readouterr().out == ""


def test_dump_ddr(doubler: str, tmp_path: Path, capsys: Capture) -> None:
    assert (
        main(
            [
                assembled(tmp_path, "_start: nop"),
                "--dump-ddr",
                "0x280000000:4",
                "--dump-ddr",
                "0x290000000:33",
            ]
        )
        == 0
    )
    zero = "00 00 00 00 00 00 00 00"
    assert capsys.readouterr().out.splitlines() == [
        "280000000  13 00 00 00" + " " * 39 + "|....|",
        "280000004",
        f"290000000  {zero}  {zero}  |................|",
        "*",
        "290000020  00" + " " * 48 + "|.|",
        "290000021",
    ]


def test_stats(doubler: str, tmp_path: Path, capsys: Capture) -> None:
    assert main([doubler, "--input", f"x={tmp_path / 'x.npy'}", "--stats"]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines() if line]
    first = rows.index(["tiles", "16"])
    assert rows[0][0] == "time" and rows[0][2] == "cycles"
    totals = rows[first + 1 : first + 4]
    assert totals == [["instructions", "99"], ["kernel", "core", "80"], ["engines", "19"]]
    assert (
        ["CT", "1", "32", "16"] in rows
        and ["rdma", "1", "16", "16"] in rows
        and ["wdma", "1", "16", "16"] in rows
    )
    assert ["ncc.wait", "16", "0", "0"] in rows


def test_program_output_goes_to_the_stream_it_names(tmp_path: Path, capsys: Capture) -> None:
    text = "_start: csrr t0, mhartid\n bnez t0, 1f\n la a1, 2f\n li a2, 3\n li a7, 64\n"
    text += 'li a0, 1\n ecall\n li a0, 2\n ecall\n j 1f\n2: .ascii "hi\\n."\n1:'
    assert main([assembled(tmp_path, text)]) == 0
    assert capsys.readouterr() == ("hi\n", "hi\n")


def test_help_and_version(capsys: Capture) -> None:
    for option, parts in (
        ("--help", ("examples:", "exit status: 0", "--on-exception", "--dump-spm")),
        ("--version", ("tx8emu ",)),
    ):
        with pytest.raises(SystemExit) as status:
            main([option])
        assert status.value.code == 0
        out = capsys.readouterr().out
        assert all(part in out for part in parts)


# -- programs that fault: exit 3 ---------------------------------------------------------------------------


def test_a_fault_is_one_line_and_the_dumps_still_come(tmp_path: Path, capsys: Capture) -> None:
    program, out = assembled(tmp_path, FAULTY), tmp_path / "out"
    assert main([program, "--dump-spm", "--tile", "0", "--output-dir", str(out)]) == 3
    text, err = capsys.readouterr()
    assert err.startswith(
        f"{program}: fault: tile 0 at 0x80000034 (p.s:3): td.memset.int32: operand 'dst' writes 16 bytes"
    )
    assert err.count("\n") == 1
    assert "00000100  01 00 00 00 01" in text


def test_a_fault_writes_no_outputs(tmp_path: Path, capsys: Capture) -> None:
    program, out = assembled(tmp_path, ".output y, fp32, 4\n.text\n_start: ebreak"), tmp_path / "out"
    assert main([program, "--output-dir", str(out)]) == 3
    assert list(out.iterdir()) == []


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        (
            "_start: j _start",
            ["--max-instructions", "100"],
            "tile 0 at 0x80000000 (p.s:1): stopped after 100 instructions",
        ),
        ("_start: li a0, 3\n li a7, 93\n ecall", [], "the program exited with status 3"),
        (
            "_start: csrr t0, mhartid\n beqz t0, 1f\n ncc.barrier\n1:",
            [],
            "waits at barrier 0xffff for tile 0 (exited)",
        ),
        ("_start: .word 0", [], "illegal instruction: 0x0000 is not an instruction"),
        (
            "_start: lw a0, 0(zero)",
            ["--threads", "2"],
            "load of 4 bytes at 0x0, where the kernel core sees no memory",
        ),
    ],
)
def test_faults(text: str, options: list[str], message: str, tmp_path: Path, capsys: Capture) -> None:
    assert main([assembled(tmp_path, text), *options]) == 3
    out, err = capsys.readouterr()
    assert out == "" and message in err and err.count("\n") == 1


def test_dropped_exceptions_let_the_program_finish(tmp_path: Path, capsys: Capture) -> None:
    program = assembled(tmp_path, FAULTY)
    assert main([program, "--on-exception", "drop"]) == 0
    assert main([program, "--on-exception", "stop"]) == 3
    assert main([assembled(tmp_path, "_start: ebreak"), "--on-exception", "drop"]) == 3


def test_instruction_limit_that_is_just_enough(tmp_path: Path) -> None:
    program = assembled(tmp_path, "_start: nop")
    assert main([program, "--max-instructions", "5"]) == 0
    assert main([program, "--max-instructions", "4"]) == 3
    assert main([program, "--max-instructions", "0"]) == 3


# -- mistakes: exit 1 --------------------------------------------------------------------------------------


def test_programs_that_cannot_be_read(tmp_path: Path, capsys: Capture) -> None:
    missing = str(tmp_path / "missing.bin")
    assert failure(capsys, missing) == f"{missing}: cannot be read: No such file or directory"
    assert failure(capsys, str(tmp_path)) == f"{tmp_path}: cannot be read: Is a directory"
    text = tmp_path / "p.s"
    text.write_text("_start: nop\n")
    assert failure(capsys, str(text)).startswith(f"{text}: ")


HEADER = b"\x93NUMPY\x01\x00\x76\x00{'descr': '<f4', 'fortran_order': False, 'shape': %-57b}\n"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "not a .npy file: it starts with b''"),
        (b"hello", "not a .npy file: it starts with b'hello'"),
        (b"\x93NUMPY\x01\x00\x10\x00{'descr': nonsen", "damaged .npy file"),
        (b"PK\x03\x04 broken archive", "an archive of arrays"),
        (HEADER % b"(1099511627776,)", "damaged .npy file"),
        (HEADER % b"(-4,)", "damaged .npy file"),
        (HEADER % b"(3,)" + bytes(8), "damaged .npy file"),
        (HEADER % b"__import__('os')", "damaged .npy file"),
    ],
)
def test_input_files_that_hold_no_array(
    content: bytes, message: str, doubler: str, tmp_path: Path, capsys: Capture
) -> None:
    bad = tmp_path / "bad.npy"
    bad.write_bytes(content)
    assert failure(capsys, doubler, "--input", f"x={bad}").startswith(f"{bad}: {message}")


def test_other_input_files(doubler: str, tmp_path: Path, capsys: Capture) -> None:
    good, none, archive, pickled = (tmp_path / name for name in ("x.npy", "none.npy", "a.npz", "o.npy"))
    np.savez(archive, x=np.zeros(4, np.float32))
    np.save(pickled, np.array([{}], dtype=object))
    assert failure(capsys, doubler, "--input", f"x={none}") == f"{none}: No such file or directory"
    assert failure(capsys, doubler, "--input", f"x={tmp_path}") == f"{tmp_path}: Is a directory"
    assert "an archive of arrays; expected one array" in failure(capsys, doubler, "--input", f"x={archive}")
    assert f"{pickled}: damaged .npy file: Object arrays" in failure(
        capsys, doubler, "--input", f"x={pickled}"
    )
    assert (
        failure(capsys, doubler)
        == "input 'x' (4 float32) is missing: give --input x=FILE.npy or --random SEED"
    )
    twice = ["--input", f"x={good}", "--input", f"x={good}"]
    assert failure(capsys, doubler, *twice) == "input 'x' is given twice"
    assert (
        failure(capsys, doubler, *twice[:2], "--input", f"w={good}")
        == "the program has no input 'w'; its inputs: x"
    )
    np.save(good, np.zeros((2, 2), np.float32))
    assert failure(capsys, doubler, *twice[:2]) == "input 'x' is 2x2 float32, expected 4 float32"


def test_places_that_cannot_be_written(doubler: str, tmp_path: Path, capsys: Capture) -> None:
    given = [doubler, "--input", f"x={tmp_path / 'x.npy'}"]
    file = tmp_path / "file"
    file.write_text("in the way")
    assert (
        failure(capsys, *given, "--output-dir", str(file))
        == f"{file}: cannot be written to: it is not a folder"
    )
    assert failure(capsys, *given, "--output-dir", f"{file}/sub").endswith("Not a directory")
    assert failure(capsys, *given, f"--dump-spm={tmp_path}/no/where").endswith("No such file or directory")
    error = failure(capsys, *given, f"--dump-spm={tmp_path}")
    assert error == f"{tmp_path}: cannot be written: Is a directory"


def test_all_outputs_or_none(tmp_path: Path, capsys: Capture) -> None:
    program = assembled(tmp_path, ".output a, fp32, 4\n.output b, fp32, 4\n.text\n_start: nop")
    out = tmp_path / "out"
    (out / "b.npy").mkdir(parents=True)
    error = failure(capsys, program, "--output-dir", str(out))
    assert error == f"{out / 'b.npy'}: cannot be written: Is a directory"
    assert [p.name for p in out.iterdir()] == ["b.npy"]


@pytest.mark.parametrize(
    ("names", "files"),
    [
        (("a/b", "a:b"), ["a_b.npy", "a_b_2.npy"]),
        (("a/b", "a_b"), ["a_b_2.npy", "a_b.npy"]),
        (("é/1", "y.2-Z"), ["__1.npy", "y.2-Z.npy"]),
        (("x" * 300, "x" * 301), ["x" * 200 + ".npy", "x" * 200 + "_2.npy"]),
    ],
)
def test_every_output_has_a_file_of_its_own(
    names: tuple[str, str], files: list[str], tmp_path: Path, capsys: Capture
) -> None:
    store = "_start: li t0, 0x3f800000\n la t1, %core(b)\n sw t0, (t1)"
    image = asm.assemble(f".output a, fp32, 4\n.output b, fp32, 4\n.text\n{store}{EXIT}")
    first, second = image.buffers
    buffers = replace(first, name=names[0]), replace(second, name=names[1])
    program = tmp_path / "p.bin"
    program.write_bytes(write_image(replace(image, buffers=buffers)))
    assert main([str(program), "--output-dir", str(tmp_path / "out")]) == 0
    assert [np.load(tmp_path / "out" / file)[0] for file in files] == [0, 1]
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == sorted(files)


@pytest.mark.parametrize("name", ["-x", "--stats", "a=b", "=", "a=", "-a=b=c"])
def test_inputs_of_any_name(name: str, doubler: str, tmp_path: Path, capsys: Capture) -> None:
    """Names of networks may begin with a dash or contain ``=``."""
    image = read_image(Path(doubler).read_bytes(), "p.bin")
    renamed = tuple(replace(each, name=name) if each.name == "x" else each for each in image.buffers)
    program, file = tmp_path / "q.bin", tmp_path / "x=1.npy"
    program.write_bytes(write_image(replace(image, buffers=renamed)))
    np.save(file, np.arange(4, dtype=np.float32))
    assert main([str(program), "--input", f"{name}={file}", "--output-dir", str(tmp_path)]) == 0
    missing = f"input '{name}' (4 float32) is missing: give --input {name}=FILE.npy or --random SEED"
    assert failure(capsys, str(program), "--input", f"zz={file}") == missing


def test_ddr_that_does_not_exist(tmp_path: Path, capsys: Capture) -> None:
    program = assembled(tmp_path, "_start: ebreak")
    for text in ("0:16", "0x127ffffff0:17", "0x280000000:-1", "-5:1"):
        assert "is outside 0x280000000..0x127fffffff, the engines' view" in failure(
            capsys, program, f"--dump-ddr={text}"
        )


def test_machine_files(tmp_path: Path, capsys: Capture) -> None:
    program, machine = assembled(tmp_path, "_start: nop"), tmp_path / "m.toml"
    machine.write_text("name = 3")
    assert failure(capsys, program, "--machine", str(machine)).startswith(f"{machine}: ")
    assert "cannot read the machine description" in failure(
        capsys, program, "--machine", str(tmp_path / "none")
    )


# -- usage: exit 2 -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "the following arguments are required: program"),
        (["p.bin", "--input", "x"], "'x' is not NAME=FILE.npy"),
        (["p.bin", "--input", "=x.npy"], "'=x.npy' is not NAME=FILE.npy"),
        (["p.bin", "--dump-spm", "--tile", "16"], "argument --tile: 16 is outside 0..15"),
        (["p.bin", "--tile", "3"], "--tile needs --dump-spm"),
        (["p.bin", "--chip", "1"], "--chip needs --dump-spm, --dump-ddr or --dump-tensor"),
        (["p.bin", "--explore-seed", "2"], "--explore-seed needs --explore"),
        (["p.bin", "--timing", "least"], "--timing needs --timed, --cycles-only, --stats, --against, "),
        (["p.bin", "--issue", "text", "--json"], "--issue needs --timed, --cycles-only, --stats, "),
        (["p.bin", "--cycles-only", "--gdb", "0"], "argument --cycles-only: not with --gdb, which is about "),
        (["p.bin", "--cycles-only", "--write-span", "hostile"], "not with --write-span, which is about data"),
        (["p.bin", "-q", "-v"], "-q and -v exclude each other"),
        (["p.bin", "--tile", "x"], "'x' is not a number from 0"),
        (["p.bin", "--threads", "0"], "argument --threads: 0 is outside 1..256"),
        (["p.bin", "--max-instructions", "-1"], "'-1' is not a number"),
        (["p.bin", "--dump-ddr", "0x280000000"], "is not ADDR:LEN, for example 0x280000000:256"),
        (["p.bin", "--on-exception", "ignore"], "invalid choice: 'ignore'"),
        (["p.bin", "--frobnicate"], "unrecognized arguments: --frobnicate"),
    ],
)
def test_usage(arguments: list[str], message: str, tmp_path: Path, capsys: Capture) -> None:
    program = assembled(tmp_path, "_start: nop")
    assert message in usage(capsys, *[program if a == "p.bin" else a for a in arguments])


# -- as a process ------------------------------------------------------------------------------------------


@pytest.mark.long
def test_a_closed_pipe_is_silent(tmp_path: Path) -> None:
    """The reader of a long dump exits."""
    program = assembled(tmp_path, "_start: nop")
    command = [*MAIN, program, *(f"--dump-ddr=0x{0x280000000 + 16 * k:x}:16" for k in range(3000))]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout and process.stderr
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait() == 0


@pytest.mark.parametrize("chips", [(), ("--chips=2x1",)])
def test_a_trace_is_written_without_a_reader_of_the_statistics(
    chips: tuple[str, ...], tmp_path: Path
) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    command = [*MAIN, assembled(tmp_path, FILLER), "--stats", f"--trace={tmp_path / 'trace.json'}", *chips]
    unbuffered = {**os.environ, "PYTHONUNBUFFERED": "1"}
    done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, env=unbuffered, check=False)
    os.close(writing)
    assert (done.returncode, done.stderr) == (0, b"")
    assert json.loads((tmp_path / "trace.json").read_text())["traceEvents"]


def test_closed_standard_output(tmp_path: Path) -> None:
    command = " ".join(
        ["exec", *(f"'{part}'" for part in MAIN), assembled(tmp_path, FILLER), "--dump-spm", ">&-"]
    )
    done = subprocess.run(["sh", "-c", command], capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize("body", ["nop", "td.memset.int32 dst=0, value=0, n=4"])
def test_an_interrupt_ends_an_endless_program(body: str, tmp_path: Path) -> None:
    hello = "la a1, 1f\n li a0, 1\n li a2, 1\n li a7, 64\n ecall\n ncc.barrier\n"
    program = assembled(tmp_path, f'_start: {hello}\n2: {body}\n j 2b\n1: .ascii "hihi"\n')
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen([*MAIN, program], **pipes) as process:
        assert process.stdout and process.stderr
        try:
            assert process.stdout.read(1) == b"h"
            time.sleep(0.2)
            process.send_signal(signal.SIGINT)
            assert process.wait(timeout=20) == 130
        finally:
            process.kill()
        assert process.stderr.read() == b"tx8emu: interrupted\n"


def cache_without_one(program: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The smallest kernel of a program, whose file is missing in a cache with all other kernels and the
    secret."""
    used: list[str] = []
    load = store.load
    with monkeypatch.context() as patched:
        patched.setattr(native, "_loaded", {})
        patched.setattr(store, "load", lambda key: used.append(key) or load(key))
        assert main(["-q", program]) == 0
    smallest, *others = sorted((store.folder() / f"{key}.o" for key in used), key=lambda f: f.stat().st_size)
    folder.mkdir(parents=True)
    for file in (*others, store.folder() / SECRET):
        shutil.copy(file, folder)
    return folder / smallest.name


@pytest.mark.long
@needs_jit
def test_nothing_is_said_about_kernels_in_a_pipe_unless_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = assembled(tmp_path, "_start: nop")
    missing = cache_without_one(program, tmp_path / "cache" / "kernels-v2", monkeypatch)
    environment = {**os.environ, "TX8_CACHE_DIR": str(tmp_path / "cache")}
    done = subprocess.run([*MAIN, program], capture_output=True, text=True, env=environment, check=True)
    assert done.stderr == "" and missing.exists()
    done = subprocess.run([*MAIN, program, "-v"], capture_output=True, text=True, env=environment, check=True)
    assert done.stderr == ""
    missing.unlink()
    done = subprocess.run([*MAIN, program, "-v"], capture_output=True, text=True, env=environment, check=True)
    assert "compil" in done.stderr


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--zzz=1"], "unrecognized arguments: --zzz=1"),
        (["--nope", "p.bin"], "unrecognized arguments: --nope"),
        (["--dump-tensr=x"], "unrecognized arguments: --dump-tensr=x; did you mean '--dump-tensor'?"),
        ([], "the following arguments are required: program"),
        (["--stri"], "the following arguments are required: program"),
    ],
)
def test_an_unknown_option_is_named_before_what_is_missing(
    options: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as left:
        main(options)
    assert left.value.code == 2
    assert capsys.readouterr().err == f"tx8emu: error: {message}; see tx8emu --help\n"


def test_help_says_what_status_3_means(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    words = " ".join(capsys.readouterr().out.split())
    assert "3 the program ran and faulted, or --strict or --explore found something" in words
