"""Wrong inputs of tx8cc: one clear line, exit status 1, no partly written file, an intact cache."""

from __future__ import annotations

import errno
import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import compiler.tools.cache as cache
from compiler.cli import main
from compiler.passes import PIPELINE
from compiler_harness import draw
from tx8isa.machine.description import TX81
from tx8isa.tools import files


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder; the cache is a folder of its own."""
    monkeypatch.setattr(cache, "default_folder", lambda: tmp_path / "programs")
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    return work


def tree(folder: Path) -> dict[str, bytes]:
    """Every file below a folder, by its path."""
    return {str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def model(path: str, **save: Any) -> Path:
    """An ONNX model with a weight of 4 KiB."""
    weight = numpy_helper.from_array(draw(32, 32), "w")
    graph = helper.make_graph(
        [
            helper.make_node("MatMul", ["x", "w"], ["h"], name="product"),
            helper.make_node("Relu", ["h"], ["y"]),
        ],
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4, 32])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [4, 32])],
        [weight],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)]), path, **save)
    return Path(path)


def graph_json(path: str, op: str, *shapes: tuple[int, ...], **attrs: Any) -> Path:
    """A graph of one node whose operands are inputs."""
    inputs = [{"name": f"x{at}", "dtype": "float32", "shape": list(shape)} for at, shape in enumerate(shapes)]
    node = {
        "op": op,
        "name": "only",
        "inputs": [item["name"] for item in inputs],
        "outputs": ["y"],
        "attrs": attrs,
    }
    Path(path).write_text(json.dumps({"opset": 20, "inputs": inputs, "outputs": ["y"], "nodes": [node]}))
    return Path(path)


def machine(path: str, *changes: tuple[str, str]) -> str:
    """The path of a description of the TX81 with other numbers."""
    text = TX81.read_text()
    for before, after in changes:
        assert text.count(before) == 1
        text = text.replace(before, after)
    Path(path).write_text(text)
    return path


def refused(folder: Path, capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Return the only line of a command that must end with status 1 and leave no file."""
    before = tree(folder.parent)
    assert main(arguments) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("tx8cc: error: ")
    assert captured.err.count("\n") == 1
    assert tree(folder.parent) == before
    return captured.err.removeprefix("tx8cc: error: ").rstrip("\n")


@pytest.mark.parametrize("keep", [0, 10, 0.3, 0.7, -1])
def test_a_cut_onnx_file(keep: float, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = model("net.onnx")
    data = path.read_bytes()
    path.write_bytes(data[: int(keep * len(data)) if isinstance(keep, float) else keep])
    assert refused(folder, capsys, "net.onnx").startswith("net.onnx: ")


def test_a_file_of_another_kind(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("net.onnx").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(100))
    assert "not an ONNX model, or a damaged one" in refused(folder, capsys, "net.onnx")


@pytest.mark.parametrize("damage", ["gone", "cut", "folder"])
def test_external_data_that_is_not_there(
    damage: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model("net.onnx", save_as_external_data=True, location="net.data", size_threshold=0)
    data = Path("net.data")
    held = data.read_bytes()
    data.unlink()
    if damage == "cut":
        data.write_bytes(held[:1000])
    elif damage == "folder":
        data.mkdir()
    assert refused(folder, capsys, "net.onnx").startswith("net.onnx: initializer 'w': ")


def test_a_model_that_does_not_fit_ddr(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    small = machine("small.toml", ("bytes = 0x10_0000_0000 ", "bytes = 0x1_0000 "))
    graph_json("net.json", "Exp", (200, 200))
    error = refused(folder, capsys, "net.json", "--machine", small)
    assert "320,000 bytes" in error
    assert "65,536" in error
    assert "DDR" in error


@pytest.mark.parametrize(
    ("op", "shapes", "attrs"),
    [
        ("Conv", [(1, 3, 64, 3000), (8, 3, 7, 7)], {}),
        ("MaxPool", [(1, 3, 64, 3000)], {"kernel_shape": [7, 7]}),
    ],
)
def test_an_operator_that_cannot_be_cut_to_fit_the_scratchpad(
    op: str,
    shapes: list[tuple[int, ...]],
    attrs: dict[str, Any],
    folder: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    sizes = (("bytes = 0x30_0000 ", "bytes = 0x1000 "), ("reserved = 0x2F_0000", "reserved = 0x1000"))
    small = machine("small.toml", *sizes)
    graph_json("net.json", op, *shapes, **attrs)
    error = refused(folder, capsys, "net.json", "--machine", small)
    assert error.startswith("node '")
    assert "4096 bytes" in error


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--run", "-S"], "-S makes no image that --run could run"),
        (["--verify-nodes", "-S"], "-S makes no image"),
        (["--verify-nodes", "--stats"], "--stats needs --run"),
        (["--input", "x=x.npy"], "--input needs --run or --verify-nodes"),
        (["-q", "-v"], "-q and -v"),
    ],
)
def test_options_that_contradict_each_other(
    arguments: list[str], message: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    graph_json("net.json", "Exp", (3, 5))
    before = tree(folder.parent)
    with pytest.raises(SystemExit) as stopped:
        main(["net.json", *arguments])
    assert stopped.value.code == 2
    assert message in capsys.readouterr().err.splitlines()[-1]
    assert tree(folder.parent) == before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--report", "full.json"], "full.json: cannot be written: No space left on device"),
        (["--save-plan", "/dev/full"], "/dev/full: cannot be written: No space left on device"),
        (["--report", "folder.json"], "folder.json: cannot be written: Is a directory"),
        (
            ["--save-plan", "no/such/plan.json"],
            "no/such/plan.json: cannot be written: No such file or directory",
        ),
        (["-o", "file"], "file: cannot be written to: it is not a folder"),
        (["-o", "file/out"], "file/out: cannot be written: Not a directory"),
        (["-o", "/dev/null"], "/dev/null: cannot be written to: it is not a folder"),
        (["-o", "x" * 300], "cannot be written: File name too long"),
    ],
)
def test_an_output_that_cannot_be_written_leaves_nothing(
    arguments: list[str], message: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    graph_json("net.json", "Exp", (3, 5))
    Path("file").write_text("mine")
    Path("folder.json").mkdir()
    Path("full.json").symlink_to("/dev/full")
    assert message in refused(folder, capsys, "net.json", "--no-cache", *arguments)
    assert not Path("net").exists()


def test_a_full_disk_leaves_no_folder(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    graph_json("net.json", "Exp", (3, 5))
    written: list[Path] = []
    replaced = Path.replace

    def full(self: Path, target: Path) -> Path:
        written.append(target)
        if len(written) == 1:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return replaced(self, target)

    monkeypatch.setattr(Path, "replace", full)
    assert "No space left on device" in refused(folder, capsys, "net.json", "--no-cache", "-o", "a/b/out")
    assert written
    assert sorted(path.name for path in folder.iterdir()) == ["net.json"]


def interrupt() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def in_a_pass(patch: pytest.MonkeyPatch) -> None:
    run = type(PIPELINE[-1]).run

    def stop(self: Any, *arguments: Any) -> None:
        interrupt()
        run(self, *arguments)

    patch.setattr(type(PIPELINE[-1]), "run", stop)


def in_the_output(patch: pytest.MonkeyPatch) -> None:
    named = files.failure_named
    opened: list[Path] = []

    def stop(target: Path) -> Any:
        opened.append(target)
        if len(opened) == 4:  # the folder exists, and two of three files are written
            interrupt()
        return named(target)

    patch.setattr(files, "failure_named", stop)


def in_the_cache(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(cache, "_packed", lambda program: (interrupt() or part for part in [b"", b""]))


@pytest.mark.parametrize("where", [in_a_pass, in_the_output, in_the_cache])
def test_ctrl_c_leaves_everything_as_it_was(
    where: Callable[[pytest.MonkeyPatch], None],
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(cache, "_BEGAN", np.inf)
    graph_json("old.json", "Exp", (3, 5))
    assert main(["old.json", "-q", "-o", "out"]) == 0
    graph_json("net.json", "Neg", (3, 5))
    before = tree(folder.parent)
    assert any("programs" in name for name in before)
    with monkeypatch.context() as patch:
        where(patch)
        assert main(["net.json", "-q", "-o", "out"]) == 130
    assert capsys.readouterr() == ("", "tx8cc: interrupted\n")
    after = tree(folder.parent)
    added = {name for name in after if name not in before}
    assert {name: data for name, data in after.items() if name in before} == before
    assert all(name.endswith(".program") for name in added)  # a whole entry, written before the files
    assert main(["net.json", "-q", "-o", "out", "--run"]) == 0
