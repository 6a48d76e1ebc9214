"""Modules written as text, passes run on them, and outlines of the result."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
from xdsl.context import Context as DialectContext
from xdsl.dialects.builtin import Builtin, ModuleOp
from xdsl.parser import Parser

from compiler.dialect.ops import GroupOp, tx8be
from compiler.graph import Array, Graph
from compiler.passes.base import Context, Pass, operations
from compiler.passes.compilation import context_of
from compiler.tools.opt_text import as_text
from time_bench import warm
from tx8isa.machine.description import load_machine


def parsed(body: str) -> ModuleOp:
    """The module of a subgraph with these operations, verified."""
    text = f'"tx8be.subgraph"() ({{\n{body}\n}}) {{graph = "g", opset = 20 : i64}} : () -> ()'
    return _parsed(f"builtin.module {{\n{text}\n}}")


def reparsed(module: ModuleOp) -> ModuleOp:
    """The module, printed and read again."""
    return _parsed(str(module))


def _parsed(text: str) -> ModuleOp:
    dialects = DialectContext()
    dialects.load_dialect(Builtin)
    dialects.load_dialect(tx8be())
    module = Parser(dialects, text).parse_module()
    module.verify()
    return module


def context(
    constants: Mapping[str, Array] | None = None, patterns: str = "default", search: str = "off"
) -> Context:
    """A compilation for four tiles, in FP16, without cold costs."""
    machine = warm(load_machine(None))
    made = context_of(Graph("g", 20, (), (), {}, (), {}), "fp16", 4, machine, patterns, search)
    made.constants = dict(constants or {})
    return made


def after(module: ModuleOp, given: Context, *passes: Pass) -> ModuleOp:
    """The module after these passes; it is verified after each."""
    for step in passes:
        step.run(given, module)
        module.verify()
    return module


def source(name: str, value: str, shape: str, element: str = "f16") -> str:
    """A graph input."""
    return f'%{value} = "tx8be.input"() {{node = "{name}"}} : () -> tensor<{shape}x{element}>'


def constant(name: str, value: str, shape: str) -> str:
    return f'%{value} = "tx8be.load_const"() {{node = "{name}"}} : () -> tensor<{shape}xf16>'


def node(
    op: str, name: str, value: str, operands: Mapping[str, str], result: str, onnx: str = "", known: str = ""
) -> str:
    """An operator on FP16 tensors; ``operands`` are values and their shapes."""
    at = ", ".join(str(number) for number in range(len(operands)))
    dtypes = ", ".join(['"float32"'] * (len(operands) + 1))
    more = f", known = {{{known}}}" if known else ""
    attributes = (
        f'node = "{name}", onnx = {{{onnx}}}, operands_at = array<i64: {at}>, dtypes = [{dtypes}]{more}'
    )
    types = ", ".join(f"tensor<{shape}xf16>" for shape in operands.values())
    values = ", ".join(f"%{name}" for name in operands)
    return f'%{value} = "tx8be.{op}"({values}) {{{attributes}}} : ({types}) -> tensor<{result}xf16>'


def output(name: str, value: str, shape: str, element: str = "f16") -> str:
    return f'"tx8be.output"(%{value}) {{node = "{name}"}} : (tensor<{shape}x{element}>) -> ()'


def outline(module: ModuleOp) -> list[str]:
    """One line per operation: its name without dialect and its node; for a group its tag and its members."""
    return list(_outline(module))


def _outline(module: ModuleOp) -> Iterator[str]:
    for operation in operations(module):
        if isinstance(operation, GroupOp):
            members = " ".join(member.node.data for member in operation.members)
            tag = "" if operation.tag is None else operation.tag.data
            yield f"group {tag}: {members}"
        else:
            yield f"{operation.name.removeprefix('tx8be.')} {operation.node.data}"


def zeros(*shape: int) -> Array:
    return np.zeros(shape, np.float32)


def written(file: Path, given: Context, module: ModuleOp, done: Sequence[str]) -> Path:
    """A compilation as text, in a file that tx8opt would write, with its large constants beside it."""
    text, constants = as_text(given, module, done, archive=True)
    file.write_text(text, encoding="utf-8")
    if constants is not None:
        file.with_suffix(".npz").write_bytes(constants)
    return file
