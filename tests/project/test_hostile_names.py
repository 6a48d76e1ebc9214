"""Names of models contain escape sequences and line ends; no tool passes them to a terminal or the
assembler."""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Callable
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

from asm.cli import assemble_main, disassemble_main
from asm.directives.call import text_of
from asm.instructions.text import quote
from asm.syntax.parse import String
from compiler.cli import main as tx8cc
from compiler.tools.opt import main as tx8opt
from emulator.cli import main as tx8emu
from tx8isa.tools.command_line import printable

EVIL = "\x1b[31m\n ebreak\r ebreak\x85 ebreak\u2028 ebreak\u202e\x07\x7f"
"""Colours, an instruction after each kind of line end, reversed text, a bell."""


def named(text: str) -> str:
    return text + EVIL


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("names")
    x, r, z = map(named, "xrz")
    nodes = [
        helper.make_node("Relu", [x], [r], name=named("first")),
        helper.make_node("Softmax", [r], [z], name=named("second")),
    ]
    refused = helper.make_node("NoSuch", [r], [z], name=named("third"))
    for name, parts in (("good", nodes), ("bad", [nodes[0], refused])):
        graph = helper.make_graph(
            parts,
            named("graph"),
            [helper.make_tensor_value_info(x, TensorProto.FLOAT, [8])],
            [helper.make_tensor_value_info(z, TensorProto.FLOAT, None)],
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
        onnx.save(model, made / f"{name}.onnx")
    with contextlib.redirect_stdout(io.StringIO()):
        assert tx8cc([str(made / "good.onnx"), "-o", str(made / "out")]) == 0
    return made


RUNS: dict[str, tuple[Callable[[list[str]], int], str]] = {
    "check": (tx8cc, "good.onnx --check"),
    "check in JSON": (tx8cc, "good.onnx --check --json"),
    "check of what is refused": (tx8cc, "bad.onnx --check"),
    "refusal": (tx8cc, "bad.onnx"),
    "run": (tx8cc, "good.onnx --run --stats -o again"),
    "nodes": (tx8cc, "good.onnx --verify-nodes -o again"),
    "estimate": (tx8cc, "good.onnx --estimate"),
    "emulator": (tx8emu, "out/prog.bin --random 0 --stats"),
    "emulator in JSON": (tx8emu, "out/prog.bin --random 0 --json"),
    "strict": (tx8emu, "out/prog.bin --random 0 --strict"),
    "unknown input": (tx8emu, "out/prog.bin --input y=y.npy"),
    "passes": (tx8opt, "good.onnx"),
    "assembler": (assemble_main, "out/prog.s -v -o again.bin"),
    "disassembler": (disassemble_main, "out/prog.bin"),
}


@pytest.mark.parametrize("what", RUNS)
def test_names_reach_no_terminal_as_they_are(
    folder: Path, what: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    tool, words = RUNS[what]
    tool(words.split())
    captured = capsys.readouterr()
    shown = captured.out + captured.err
    assert shown
    assert {letter for letter in shown if not letter.isprintable()} <= {"\n"}
    assert not [line for line in shown.split("\n") if line.startswith(" ebreak")]
    if "JSON" in what:
        assert json.loads(captured.out)


def test_no_name_becomes_an_instruction(folder: Path) -> None:
    text = (folder / "out" / "prog.s").read_bytes().decode()
    assert "ebreak" in text
    assert not [line for line in text.splitlines() if line.split("#")[0].strip().startswith("ebreak")]
    assert {letter for letter in text if not letter.isprintable()} == {"\n"}


@pytest.mark.parametrize("text", [EVIL, 'a"b\\c', "größer\u00a0\U0001f600", "\x00", "plain"])
def test_a_quoted_text_is_printable_and_reads_the_same(text: str) -> None:
    quoted = quote(text)
    assert quoted.isprintable()
    assert text_of(String(quoted[1:-1], 0)) == text


def test_control_characters_stay_valid_in_json() -> None:
    kept = {"größer": "a\tb\n\u00e9"}
    assert printable(json.dumps(kept, ensure_ascii=False)) == json.dumps(kept, ensure_ascii=False)
    control = {"".join(map(chr, range(0x20, 0xA0))): EVIL}
    assert json.loads(printable(json.dumps(control, ensure_ascii=False))) == control
