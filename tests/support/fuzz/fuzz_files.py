"""Damaged files of every kind that a tool reads: assembly, graphs, ONNX models, images, saved states.

A mistake in a file must give a message to the user; anything else is an uncaught exception.
"""

from __future__ import annotations

import json
import struct
import tempfile
import zlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

from onnx import TensorProto, helper

import asm
from asm.image import read_image
from compiler.frontend import load
from emulator.debug.snapshot.chip import save
from emulator.debug.snapshot.file import decode, encode
from emulator.program import Program
from emulator.tile.fault import Fault
from fuzz_images import damaged, image, sealed
from fuzz_instructions import MACHINE
from paths import ROOT
from tx8isa.errors import Tx8Error

_PIECES = (
    *("0", "-1", "1e400", "0x8000000000000000", "18446744073709551616", '"', "'", "\\", "\0", "\u0430"),
    *(
        "(",
        ")",
        "[",
        "]",
        "{",
        "}",
        ",",
        ":",
        "#",
        "/*",
        "*/",
        ";",
        ".rept 9\n",
        ".endr\n",
        ".macro m\n",
        ".endm\n",
        ".if 1\n",
    ),
    *(
        "\n",
        "\\ud800",
        "null",
        "true",
        "[[[[",
        "NaN",
        ".space 1<<40\n",
        '.include "x"\n',
        ".equ a, b\n",
        "\u00a0",
        "%hi(",
    ),
)
_WORD = 0.5


def judged(action: Callable[[], object]) -> str:
    """Return the result of an input: the first line of the message, or ``taken``."""
    try:
        action()
    except (Fault, Tx8Error) as error:
        text = str(error)
        assert text, "a message without a word"
        assert "Traceback" not in text, text
        return text.splitlines()[0][:200]
    return "taken"


def edited(text: str, rng: Random) -> str:
    """Remove, repeat or move pieces of a text, or replace them by words that are valid elsewhere."""
    for _ in range(rng.choice((1, 1, 2, 4, 8))):
        start = rng.randrange(len(text) + 1)
        end = min(len(text), start + rng.choice((0, 1, 1, 3, 10, 40)))
        there = rng.randrange(len(text) + 1)
        taken = text[there : there + rng.choice((1, 5, 30))]
        text = (
            text[:start]
            + rng.choice(("", rng.choice(_PIECES), taken, chr(rng.randrange(1, 256))))
            + text[end:]
        )
    return text


@cache
def sources() -> list[str]:
    """Programs in assembly."""
    found = [*(ROOT / "examples/assembly").glob("*.s"), *(ROOT / "tests/asm/programs").glob("*.s")]
    return [path.read_text(encoding="utf-8") for path in sorted(found)]


def assembly_example(rng: Random) -> str:
    """A program that is assembled is disassembled, and that text gives the same bytes."""
    text = edited(rng.choice(sources()), rng)

    def action() -> None:
        made = asm.assemble(text)
        again = asm.assemble(asm.disassemble(made))
        assert [s.data for s in again.segments] == [s.data for s in made.segments], "other bytes after tx8dis"

    return judged(action)


@cache
def graphs() -> list[str]:
    """Graphs in JSON: those of the examples, without their files, and equally often a graph without files."""
    found = [path.read_text() for path in sorted((ROOT / "examples").glob("*/*.json"))]
    own = {
        "name": "own",
        "opset": 20,
        "inputs": [{"name": "x", "dtype": "float32", "shape": [2, 3]}],
        "constants": {"k": {"dtype": "float32", "data": [[0.5, 1.5, "Infinity"], [1, 2, 3]]}},
        "outputs": ["y", "s"],
        "nodes": [
            {"op": "Add", "name": "add", "inputs": ["x", "k"], "outputs": ["h"]},
            {"op": "Softmax", "inputs": ["h"], "outputs": ["y"], "attrs": {"axis": 1}},
            {"op": "Transpose", "inputs": ["h"], "outputs": ["s"], "attrs": {"perm": [1, 0]}},
        ],
    }
    return [*(text for text in found if '"opset"' in text), *[json.dumps(own)] * len(found)]


def _read(data: bytes, name: str) -> str:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_bytes(data)
        return judged(lambda: load(path)).replace(folder, "")


def graph_example(rng: Random) -> str:
    """A graph changed as text, or one of its values changed to another."""
    text = rng.choice(graphs())
    if rng.random() < _WORD:
        return _read(edited(text, rng).encode("utf-8", "surrogatepass"), "g.json")
    return _read(json.dumps(_with_another_value(json.loads(text), rng)).encode(), "g.json")


def _with_another_value(graph: Any, rng: Random) -> Any:
    """The graph with one of its values, at any depth, replaced."""
    place, key = graph, ""
    for _ in range(rng.randint(1, 5)):
        key = rng.choice(list(place) if isinstance(place, dict) else range(len(place)))
        inner = place[key]
        if not isinstance(inner, dict | list) or not inner or rng.random() < 0.3:
            break
        place, key = inner, next(iter(inner)) if isinstance(inner, dict) else 0
    values = (None, -1, 0, 2**70, 1.5, "", "x", "\ud800", [], {}, [[]], True, [1, -1], "float32", "int4")
    place[key] = rng.choice(values)
    return graph


@cache
def model() -> bytes:
    """A small model with constants and attributes."""
    weights = helper.make_tensor("w", TensorProto.FLOAT, [4, 3, 3, 3], [0.5] * 108)
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], name="conv", pads=[1, 1, 1, 1], strides=[1, 1]),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("MaxPool", ["r"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Flatten", ["p"], ["f"]),
        helper.make_node("Softmax", ["f"], ["y"], axis=1),
    ]
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        "g",
        [value("x", TensorProto.FLOAT, [1, 3, 8, 8])],
        [value("y", TensorProto.FLOAT, [1, 64])],
        [weights],
    )
    opset = [helper.make_opsetid("", 20)]
    return bytes(helper.make_model(graph, opset_imports=opset, ir_version=10).SerializeToString())


def model_example(rng: Random) -> str:
    """An ONNX file with some bytes changed, repeated or cut."""
    data = bytearray(model())
    for _ in range(rng.choice((1, 1, 2, 4))):
        at = rng.randrange(len(data))
        kind = rng.randrange(4)
        if kind == 0:
            data[at] = rng.randrange(256)
        elif kind == 1:
            data[at] ^= 1 << rng.randrange(8)
        elif kind == 2:
            data[at:at] = data[at : at + rng.randint(1, 20)]
        else:
            del data[at : at + rng.randint(1, 20)]
    return _read(bytes(data), "m.onnx")


def image_example(rng: Random) -> str:
    """A damaged image into the disassembler, whose text is assembled again."""
    data = sealed(damaged(image(), rng))
    return judged(lambda: asm.assemble(asm.disassemble(read_image(data, "a.bin"))))


@cache
def _program() -> Program:
    return Program(read_image(image(), "a.bin"), MACHINE)


@cache
def _state() -> bytes:
    import numpy as np

    program = _program()
    system = program.start({"x": np.zeros((1, 2, 3, 5), np.float16)})
    return encode(save(system))


def state_example(rng: Random) -> str:
    """Change some bytes of a saved state, mostly with a valid checksum; load it and continue the run."""
    data = _state()
    header = struct.calcsize("<8sIIQQ")
    if rng.random() < 0.2:
        damage = damaged(data, rng)
    else:
        content = bytearray(zlib.decompress(data[header:]))
        for _ in range(rng.choice((1, 1, 2, 4))):
            at = rng.randrange(rng.choice((200, 2000, len(content))))  # most fields come before the memories
            content[at] = rng.choice((content[at] ^ 1 << rng.randrange(8), rng.randrange(256)))
        if rng.random() < 0.1:
            del content[rng.randrange(len(content)) :]
        payload = zlib.compress(bytes(content), 1)
        sizes = struct.pack("<IQQ", zlib.crc32(payload), len(payload), len(content))
        damage = data[:12] + sizes + payload

    def action() -> None:
        snapshot = decode(damage, "s")
        _program().start({}, snapshot=snapshot).run(500)

    return judged(action)
