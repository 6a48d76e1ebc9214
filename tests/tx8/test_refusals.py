"""Arguments of a wrong kind are named in one line, and the text of a compiled program is short."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import compiler
import tx8


def model() -> onnx.ModelProto:
    """A product with a large constant."""
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [4, 256]) for name in "xy")
    weights = onnx.numpy_helper.from_array(np.ones((256, 256), np.float32), "w")
    graph = helper.make_graph([node], "big", [x], [y], [weights])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: tx8.assemble(b"nop"), "a program is assembled from text, not from bytes"),
        (lambda: tx8.assemble(None), "a program is assembled from text, not from NoneType"),
        (lambda: tx8.assemble_file(3), "assembly is read from a path, not from int"),
        (lambda: tx8.load(b"\x7fELF"), "a program image is read from a path, not from bytes"),
        (lambda: tx8.load(None), "a program image is read from a path, not from NoneType"),
        (
            lambda: tx8.compile(model(), chips=2),
            "chips is 2; expected their columns and rows, such as (2, 1)",
        ),
        (
            lambda: compiler.compile(model()),
            "a graph or a path is compiled, not ModelProto: tx8.compile takes other models as well",
        ),
        (
            lambda: compiler.compile(b"model"),
            "a graph or a path is compiled, not bytes: tx8.compile takes other models as well",
        ),
    ],
)
def test_what_is_of_the_wrong_kind_is_one_line(call: Callable[[], object], said: str) -> None:
    with pytest.raises(tx8.Error) as caught:
        call()
    assert str(caught.value) == said


def test_what_is_shown_of_a_compiled_program_is_short() -> None:
    """Without its constants, which are megabytes for a network."""
    compiled = tx8.compile(model(), dtype="fp16").compiled
    assert compiled is not None
    assert repr(compiled).startswith("<compiler.Program big: fp16, 16 tiles, ")
    assert repr(compiled.graph) == "<Graph big: (x) -> (y), 1 nodes>"
    assert repr(compiled.image).startswith("<Image: ")
    assert all(len(repr(part)) < 100 for part in (compiled, compiled.graph, compiled.image))
