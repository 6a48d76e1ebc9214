"""The cache of compiled programs: keys, refused entries, and the state after an interrupt."""

from __future__ import annotations

import json
import math
import os
import time
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import compiler.tools.cache as cache
from asm.image import write_image
from compiler.cli import main
from compiler.driver import Program, compile_graph
from compiler.graph import Graph
from compiler.tools.cache import ProgramCache, program_key
from compiler_harness import draw, graph, small_machine
from tx8isa.machine.description import load_machine
from tx8isa.tools.cache_folder import SECRET

MACHINE = load_machine(None)
OPTIONS = {"dtype": "fp16", "tiles": 2}
"""The options of the program of these tests."""


def made(**changes: Any) -> Graph:
    """A graph whose attributes, constants and names can be chosen."""
    chosen = {"axis": 1, "op": "Softmax", "value": 1.0, "output": "y"} | changes
    nodes = [
        ("Mul", ["x", "k"], ["h"], {}),
        (chosen["op"], ["h"], [chosen["output"]], {"axis": chosen["axis"]}),
    ]
    constants = {"k": draw(3, 5) * np.float32(chosen["value"])}
    return graph(nodes, {"x": (3, 5)}, constants, outputs=[chosen["output"]])


@pytest.fixture(autouse=True)
def no_edits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Edits of the sources while the tests run do not count."""
    monkeypatch.setattr(cache, "_BEGAN", math.inf)


@pytest.fixture(scope="module")
def program() -> Program:
    return compile_graph(made(), "fp16", 2)


@pytest.fixture
def store(tmp_path: Path) -> ProgramCache:
    return ProgramCache(tmp_path / "programs")


def entries(store: ProgramCache) -> list[str]:
    """Names of the files in the folder, without that of its secret."""
    return sorted(path.name for path in store.folder.iterdir() if path.name != SECRET)


def same(left: Program, right: Program) -> bool:
    """Return True if two programs have the same files."""
    images = write_image(left.image) == write_image(right.image)
    return images and (left.text, left.constants) == (right.text, right.constants)


def test_what_is_stored_comes_back(store: ProgramCache, program: Program) -> None:
    assert store.load("k", program.graph, MACHINE, OPTIONS) is None
    assert store.save("k", program)
    found = store.load("k", program.graph, MACHINE, OPTIONS)
    assert found is not None
    assert same(found, program)
    assert (found.dtype, found.tiles) == ("fp16", 2)
    assert entries(store) == ["k.program"]


def test_a_program_from_the_cache_can_be_compiled_again(store: ProgramCache, program: Program) -> None:
    """It has the decisions of the first compilation, so that a search makes no others."""
    store.save("k", program)
    found = store.load("k", program.graph, MACHINE, OPTIONS)
    assert found is not None
    assert found.again is not None
    again = found.again()
    assert same(again, program)
    assert again.report is not None
    assert program.report is not None
    assert again.report.plan == program.report.plan


def test_a_program_has_no_more_than_is_kept() -> None:
    """A new field of Program must have an entry here that says if the cache keeps it."""
    kept = {"dtype", "tiles", "text", "constants", "image", "core_work", "states", "wide"}
    given = {"graph", "machine", "again", "ranges"}  # the plan is kept
    of_several_chips = {"spread", "tried"}  # the cache has no such programs
    left_out = {"timing", "report"} | of_several_chips
    assert {field.name for field in fields(Program)} == kept | given | left_out


def key(graph: Graph | None = None, machine: Any = MACHINE, **options: Any) -> str:
    return program_key(graph or made(), machine, {"dtype": None, "tiles": None} | options)


def test_equal_graphs_have_one_key() -> None:
    assert key() == key(made())
    assert len(key()) == 64


@pytest.mark.parametrize(
    "other",
    [
        lambda: key(made(axis=0)),
        lambda: key(made(op="LogSoftmax")),
        lambda: key(made(value=np.nextafter(np.float32(1), np.float32(2)))),
        lambda: key(made(output="z")),
        lambda: key(replace(made(), name="another")),
        lambda: key(replace(made(), constants={"k": made().constants["k"].astype(np.float16)})),
        lambda: key(dtype="fp16"),
        lambda: key(tiles=3),
        lambda: key(machine=small_machine()),
    ],
)
def test_whatever_makes_another_program_makes_another_key(other: Any) -> None:
    assert other() != key()


def test_files_that_options_name_count_by_what_is_in_them(tmp_path: Path) -> None:
    keys = set()
    for text in ("[a]", "[b]", "[a]"):
        (tmp_path / "set.toml").write_text(text)
        keys.add(key(patterns=str(tmp_path / "set.toml")))
        keys.add(key(plan=tmp_path / "set.toml"))
    assert len(keys) == 4


def test_the_sources_are_part_of_the_key(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    source = tmp_path / "pass.py"
    source.write_text("a = 1\n")
    monkeypatch.setattr(cache, "_sources", lambda: [source])
    keys = set()
    for text in ("a = 1\n", "a = 2\n", "a = 1\n"):
        source.write_text(text)
        cache._sources_digest.cache_clear()
        keys.add(key())
    cache._sources_digest.cache_clear()
    assert len(keys) == 2


def test_nothing_is_kept_when_the_compiler_changed_meanwhile(
    store: ProgramCache, program: Program, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    source = tmp_path / "pass.py"
    source.write_text("a = 1\n")
    monkeypatch.setattr(cache, "_sources", lambda: [source])
    monkeypatch.setattr(cache, "_BEGAN", source.stat().st_mtime - 1)
    assert not store.save("k", program)
    assert not store.folder.exists()


@pytest.mark.parametrize("damage", ["cut", "bit", "empty", "other"])
def test_a_damaged_entry_is_ignored_and_replaced(
    store: ProgramCache, program: Program, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    store.save("k", program)
    path = store.folder / "k.program"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= damage == "bit"
    path.write_bytes({"cut": data[:-1], "bit": data, "empty": b"", "other": b"tx8 kernel 1\n"}[damage])
    assert store.load("k", program.graph, MACHINE, OPTIONS) is None
    assert "damaged" in caplog.text
    assert store.save("k", program)
    assert store.load("k", program.graph, MACHINE, OPTIONS) is not None


def test_the_oldest_go_when_there_are_too_many(store: ProgramCache, program: Program) -> None:
    store.save("a", program)
    size = (store.folder / "a.program").stat().st_size
    for age, name in enumerate("dcba"):
        store.save(name, program)
        os.utime(store.folder / f"{name}.program", (time.time() - 100 + age,) * 2)
    os.utime(store.folder / "d.program")  # used just now
    dead = store.folder / f".x.program.tx8-{'0' * 16}.tmp"
    dead.write_bytes(b"")
    os.utime(dead, (1, 1))
    fresh = store.folder / f".x.program.tx8-{'1' * 16}.tmp"
    fresh.write_bytes(b"")
    store.most = 3 * size
    store.save("e", program)
    assert entries(store) == [fresh.name, "a.program", "d.program", "e.program"]


def test_a_program_larger_than_the_cache_is_not_kept(store: ProgramCache, program: Program) -> None:
    store.save("a", program)
    store.most = (store.folder / "a.program").stat().st_size - 1
    assert not store.save("b", program)
    assert entries(store) == ["a.program"]


def test_a_use_makes_an_entry_young(store: ProgramCache, program: Program) -> None:
    store.save("k", program)
    os.utime(store.folder / "k.program", (1, 1))
    store.load("k", program.graph, MACHINE, OPTIONS)
    assert (store.folder / "k.program").stat().st_mtime > 1


@pytest.mark.parametrize("error", [KeyboardInterrupt(), OSError(28, "No space left on device")])
def test_what_stops_the_writing_leaves_no_file(
    store: ProgramCache, program: Program, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    store.save("old", program)

    def stop(self: Path, target: Path) -> None:
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", stop)
        if isinstance(error, OSError):
            assert not store.save("k", program)
        else:
            with pytest.raises(KeyboardInterrupt):
                store.save("k", program)
    assert entries(store) == ["old.program"]


def test_a_folder_that_cannot_be_written_is_no_error(program: Program, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    store = ProgramCache(tmp_path / "file" / "programs")
    assert not store.save("k", program)
    assert store.load("k", program.graph, MACHINE, OPTIONS) is None


# --- the command --------------------------------------------------------------------------


@pytest.fixture
def tiny(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(cache, "default_folder", lambda: tmp_path / "programs")
    node = {"op": "Relu", "inputs": ["x"], "outputs": ["y"]}
    graph = {"opset": 20, "inputs": [{"name": "x", "dtype": "float32", "shape": [3, 5]}], "outputs": ["y"]}
    path = tmp_path / "tiny.json"
    path.write_text(json.dumps(graph | {"nodes": [node]}))
    return path


def files(path: Path) -> dict[str, bytes]:
    return {item.name: item.read_bytes() for item in sorted(path.iterdir())}


def test_tx8cc_says_hit_or_miss_and_writes_the_same_bytes(
    tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for word in ("miss", "hit"):
        assert main([str(tiny), "-v", "-o", str(tmp_path / word)]) == 0
        assert f"tx8cc: program cache: {word}, " in capsys.readouterr().err
    assert main([str(tiny), "--no-cache", "-v", "-o", str(tmp_path / "fresh")]) == 0
    assert "cache" not in capsys.readouterr().err
    assert files(tmp_path / "hit") == files(tmp_path / "miss") == files(tmp_path / "fresh")
    assert main([str(tiny), "--run", "-q"]) == 0


def test_no_cache_leaves_no_file(tiny: Path, tmp_path: Path) -> None:
    assert main([str(tiny), "--no-cache", "-q"]) == 0
    assert not (tmp_path / "programs").exists()


@pytest.mark.parametrize("watch", [["--pass-times"], ["--print-ir-after", "cast"]])
def test_who_watches_the_passes_sees_them_run(
    tiny: Path, watch: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(tiny), "-q"]) == 0
    assert main([str(tiny), "-v", *watch]) == 0
    captured = capsys.readouterr()
    assert "program cache: not asked, kept" in captured.err
    assert "import" in captured.out or "tx8be.cast" in captured.out or "after cast" in captured.out


def test_a_machine_counts_by_what_its_description_says(
    tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from tx8isa.machine.description import TX81

    other = tmp_path / "other.toml"
    other.write_text(f"# the same\n{TX81.read_text()}")
    assert main([str(tiny), "-q"]) == 0
    assert main([str(tiny), "-v", "--machine", str(other)]) == 0
    assert "program cache: hit" in capsys.readouterr().err
    other.write_text(TX81.read_text().replace("reset_byte = 0xFF", "reset_byte = 0xFE", 1))
    assert main([str(tiny), "-v", "--machine", str(other)]) == 0
    assert "program cache: miss" in capsys.readouterr().err
