"""The examples in ``--help`` are run as printed, and their comments are true."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from onnx import helper, save

from onnx_models import model
from paths import ROOT

TOOLS = ("tx8as", "tx8dis", "tx8emu", "tx8cc", "tx8opt")
BIN = Path(sys.executable).parent

PROGRAM = """
        .ifndef TILES
        .equ    TILES, 16
        .endif
        .output y, fp16, 4x1000
_start: li      t0, TILES * 40000
again:  addi    t0, t0, -1
        bnez    t0, again
        td.memset.fp16 dst=0x10000, value=1.5, n=4000
        ncc.wait
        csrr    t0, mhartid
        bnez    t0, done
        la      t1, y
        wdma.fp16 dst=t1, src=0x10000, n=4000
        ncc.wait
done:   li      a7, 93
        ecall
"""
"""Runs for more than a million instructions; 40,000 turns for each of 16 tiles."""


@cache
def help_text(tool: str) -> str:
    done = subprocess.run([BIN / tool, "--help"], capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return done.stdout


def examples(tool: str) -> list[str]:
    """Return the command lines without their comments."""
    shown = re.search(r"^examples:\n((?:  .+\n)+)", help_text(tool), re.MULTILINE)
    assert shown is not None, f"{tool} --help shows no examples"
    return [re.split(r" {2,}", line.strip())[0] for line in shown[1].splitlines()]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All files that the examples read, each as its name says."""
    path = tmp_path_factory.mktemp("made")
    (path / "prog.s").write_text(PROGRAM)
    (path / "include").mkdir()
    subprocess.run([BIN / "tx8as", "-q", "prog.s"], cwd=path, check=True)
    graph = {
        "opset": 20,
        "inputs": [{"name": "x", "dtype": "float32", "shape": [3, 8]}],
        "outputs": ["y"],
        "nodes": [{"op": "Softmax", "inputs": ["x"], "outputs": ["y"]}],
    }
    (path / "graph.json").write_text(json.dumps(graph))
    save(model([helper.make_node("Relu", ["x"], ["y"])], {"x": (2, 3)}, ir_version=10), path / "model.onnx")
    for name in ("x", "images"):
        np.save(path / f"{name}.npy", np.linspace(-4, 4, 24, dtype=np.float32).reshape(3, 8))
    (path / "entries.json").write_text(
        json.dumps({"entries": {"read": "graph.json", "decode": "graph.json"}})
    )
    for source, name in (("graph.json", "net"), ("entries.json", "several")):
        subprocess.run([BIN / "tx8cc", "-q", source, "-o", name], cwd=path, check=True)
    shutil.copytree(ROOT / "examples" / "batchnorm", path / "examples" / "batchnorm")
    shutil.copy(ROOT / "examples/triton/ttir/add_fp16.ttir", path / "kernel.ttir")
    return path


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    """A folder with them, in which the examples may write."""
    return shutil.copytree(made, tmp_path / "folder")


def typed(command: str, folder: Path, programs: Path) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join((str(programs), str(BIN), os.environ.get("PATH", "")))
    return subprocess.run(
        ["bash", "-o", "pipefail", "-c", command],
        cwd=folder,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def debugged(command: str, folder: Path) -> None:
    """A debugger connects to the port of the command and ends the program."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = [str(BIN / command.split()[0]), *command.split()[1:]]
    words[words.index("--gdb") + 1] = str(port)  # the one of the example may be in use
    with subprocess.Popen(words, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        for _ in range(300):
            try:
                with socket.create_connection(("127.0.0.1", port), timeout=60) as debugger:
                    debugger.sendall(b"$?#3f")
                    assert debugger.recv(100)
                    debugger.sendall(b"+$k#6b")
                break
            except ConnectionRefusedError:
                time.sleep(0.1)
        process.wait(timeout=60)


def files_named(command: str) -> list[str]:
    """Return the files that a command reports to write."""
    options = r"-o|-l|--trace|--report|--output-dir" + ("|--save-state" if "--save-state" in command else "")
    return re.findall(rf"(?:{options}) (\S+)", command)


@pytest.mark.parametrize("tool", TOOLS)
def test_examples_of_help_do_what_they_say(tool: str, folder: Path, programs: Path) -> None:
    """In their order and in one folder, as a reader would type them."""
    for command in examples(tool):
        if "--gdb" in command:
            debugged(command, folder)
            continue
        done = typed(command, folder, programs)
        assert done.returncode == 0, f"$ {command}\n{done.stderr}"
        assert "error" not in done.stderr and "warning" not in done.stderr, f"$ {command}\n{done.stderr}"
        for name in files_named(command):
            assert (folder / name).exists(), f"$ {command}\nwrote no {name}"


def test_what_is_said_beside_examples(folder: Path, programs: Path) -> None:
    """The claims that a file shows: names of images, equal bytes, constants next to a module."""
    before = (folder / "prog.bin").read_bytes()
    typed("tx8dis prog.bin | tx8as - -o q.bin; tx8dis prog.bin | tx8as -", folder, programs)
    assert (folder / "q.bin").read_bytes() == before == (folder / "a.bin").read_bytes()
    typed("tx8opt model.onnx --until align_opt -o a.mlir", folder, programs)
    assert (folder / "a.mlir").exists()


def test_every_example_is_one_of_its_tool() -> None:
    for tool in TOOLS:
        found = examples(tool)
        assert len(found) >= 3
        assert all(tool in command.split() for command in found), found


@pytest.mark.parametrize("command", ["tx8cc graph.json --print-ir-after layout -S"])
def test_an_example_that_fails_would_be_found(command: str, folder: Path, programs: Path) -> None:
    """A pass that does not exist, as the help once had it."""
    assert typed(command, folder, programs).returncode == 2
