"""Common behaviour of the command lines: names of any kind, messages of one line, standard output, Ctrl-C."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from asm.image import read_image
from compiler.cli import main
from tx8_entry import commands
from tx8isa.errors import Tx8Error
from tx8isa.tools.command_line import interrupts_held, named_file, one_line, print_out, with_operand

TOOLS = {"tx8cc": "compiler.cli", "tx8opt": "compiler.tools.opt"}


@pytest.mark.parametrize(
    ("given", "made"),
    [
        ([], []),
        (["a", "--input", "-x=f", "b"], ["a", "--input=-x=f", "b"]),
        (["--input", "--input", "x"], ["--input=--input", "x"]),
        (["--input=x=f", "--run"], ["--input=x=f", "--run"]),
        (["a", "--input"], ["a", "--input"]),
    ],
)
def test_an_option_and_what_follows_it(given: list[str], made: list[str]) -> None:
    assert with_operand(given, "--input") == made


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("x=f.npy", ("x", "f.npy")),
        ("a=b=f.npy", ("a=b", "f.npy")),
        ("a=./b=f.npy", ("a", "./b=f.npy")),
        ("y=b=f.npy", ("y", "b=f.npy")),
        ("==f", ("=", "f")),
        ("=f", None),
        ("f=", None),
        ("f", None),
        ("", None),
    ],
)
def test_names_and_files(text: str, found: tuple[str, str] | None) -> None:
    assert named_file(text, ["a", "a=b", "="]) == found


@pytest.mark.parametrize("tool", ["tx8as", "tx8dis", "tx8emu", "tx8cc", "tx8opt"])
def test_an_option_that_is_not_there_is_named_before_what_is_missing(
    tool: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", [tool, "--hlep"])
    with pytest.raises(SystemExit) as left:
        getattr(commands, tool)()
    assert left.value.code == 2
    said = f"{tool}: error: unrecognized arguments: --hlep; did you mean '--help'?; see {tool} --help"
    assert capsys.readouterr().err.splitlines()[-1] == said


def test_a_message_is_one_line() -> None:
    assert one_line("a\nb\t c\0 \x1b[31m é\u2028x") == "a b c\\x00 \\x1b[31m é x"


def test_standard_output_that_is_full(monkeypatch: pytest.MonkeyPatch) -> None:
    with open("/dev/full", "w") as full:  # noqa: PTH123
        monkeypatch.setattr(sys, "stdout", full)
        with pytest.raises(Tx8Error, match=r"^standard output: No space left on device$"):
            print_out("text")
        monkeypatch.undo()
        os.dup2(os.open(os.devnull, os.O_WRONLY), full.fileno())


def test_ctrl_c_waits_for_the_end_of_a_block() -> None:
    before, done = signal.getsignal(signal.SIGINT), []
    with pytest.raises(KeyboardInterrupt), interrupts_held():
        os.kill(os.getpid(), signal.SIGINT)
        done.append(True)
    assert done
    assert signal.getsignal(signal.SIGINT) is before


# --- the tools ----------------------------------------------------------------------------


def graph_file(path: Path, x: str = "x", outputs: tuple[str, str] = ("y", "z"), node: str = "n") -> Path:
    """Two outputs: e to the x, and minus that."""
    description = {
        "opset": 20,
        "inputs": [{"name": x, "dtype": "float32", "shape": [3]}],
        "outputs": list(outputs),
        "nodes": [
            {"op": "Exp", "name": node, "inputs": [x], "outputs": [outputs[0]]},
            {"op": "Neg", "name": node + "2", "inputs": [outputs[0]], "outputs": [outputs[1]]},
        ],
    }
    path.write_text(json.dumps(description))
    return path


@pytest.mark.parametrize(
    "name", ["a\nb", "a\rb", 'a"\\', "a;b#c//d/*", "é→", "-x", "a=b", "x" * 5000, "\x1b[31m"]
)
def test_any_name(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Such names of inputs, outputs and nodes compile and run, and the image has them unchanged."""
    path = graph_file(tmp_path / "net.json", name, (f"{name}.y", f"{name}.z"), name)
    file, out = tmp_path / "x=0.npy", tmp_path / "out"
    np.save(file, np.zeros(3, np.float32))
    given = ["--input", f"{name}={file}", "--output-dir", str(out)]
    assert main([str(path), "-q", "--no-cache", "--search", "off", "--run", *given]) == 0
    assert capsys.readouterr().err == ""
    arrays = sorted(np.load(each)[0] for each in out.iterdir())
    assert arrays == pytest.approx([-1, 1])
    image = read_image((tmp_path / "net" / "prog.bin").read_bytes(), "prog.bin")
    assert [buffer.name for buffer in image.buffers] == [name, f"{name}.y", f"{name}.z"]
    assert name in image.nodes.values()


def test_outputs_whose_files_would_have_one_name(tmp_path: Path) -> None:
    path, out = graph_file(tmp_path / "net.json", outputs=("a:0", "a/0")), tmp_path / "out"
    assert main([str(path), "-q", "--no-cache", "--run", "--output-dir", str(out)]) == 0
    assert sorted(each.name for each in out.iterdir()) == ["a_0.npy", "a_0_2.npy"]
    np.testing.assert_allclose(np.load(out / "a_0.npy"), -np.load(out / "a_0_2.npy"))


@pytest.mark.parametrize("tool", TOOLS)
def test_a_reader_that_has_gone(tool: str, tmp_path: Path) -> None:
    """Like ``head``, the reader exits early; tx8cc still writes its program."""
    path = graph_file(tmp_path / "net.json")
    more = ["--print-ir-after", "all", "--no-cache"] if tool == "tx8cc" else ["--until", "cast"]
    script = f"import sys; from {TOOLS[tool]} import main; sys.exit(main())"
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        [sys.executable, "-c", script, str(path), *more], stdout=write, stderr=subprocess.PIPE, text=True
    )
    os.close(write)
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "net" / "prog.bin").exists() == (tool == "tx8cc")
