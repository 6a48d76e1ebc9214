"""The text of a module in MLIR's generic form, parsed by xDSL, with the place of each operation."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import (
    AnyDenseElement,
    AnyFloat,
    Builtin,
    BytesAttr,
    DenseIntOrFPElementsAttr,
    ModuleOp,
    RankedStructure,
)
from xdsl.ir import Operation
from xdsl.utils.exceptions import ParseError

from compiler.dialect.parser import BudgetParser
from compiler.graph import GraphError


@dataclass(frozen=True)
class SourceModule:
    """A parsed module.

    ``labels`` are short, distinct names of operations; ``places`` their origins, for messages, which begin
    with ``source``. ``names`` are the inputs' names, if known; ``size`` is the size of the text.
    """

    source: str
    module: ModuleOp
    labels: dict[Operation, str]
    places: dict[Operation, str]
    names: tuple[str, ...] = ()
    size: int = 0


class _Parser(BudgetParser):
    """Records the line on which each operation begins, in the order of the text."""

    def __init__(self, context: Context, text: str, source: str) -> None:
        super().__init__(context, text, source)
        self._ends = [found.start() for found in re.finditer("\n", text)]
        self.lines: dict[Operation, int] = {}

    def parse_dense_int_or_fp_elements_attr(
        self, type: RankedStructure[AnyDenseElement] | None
    ) -> DenseIntOrFPElementsAttr:
        """Parse a dense constant, in which a hexadecimal number gives the bits of a float, as in MLIR."""
        begin = self.pos
        read = super().parse_dense_int_or_fp_elements_attr(type)
        text = (self.lexer.input.slice(begin, self.pos) or "").partition(">")[0]
        if not isinstance(read.get_element_type(), AnyFloat) or '"' in text or "0x" not in text.lower():
            return read
        bits = _with_bits(read, re.findall(r"[-+\w.]+", text))
        return DenseIntOrFPElementsAttr(read.type, BytesAttr(bits))

    def parse_operation(self) -> Operation:
        line = 1 + bisect_right(self._ends, self.pos)
        op = super().parse_operation()
        self.lines[op] = line
        return op


def _with_bits(read: DenseIntOrFPElementsAttr, words: Sequence[str]) -> bytes:
    """Return the data of a constant of floats; ``words`` are its elements, or the one for all of them."""
    size = read.get_element_type().compile_time_size
    data = bytearray(read.data.data)
    for at in range(len(data) // size):
        word = words[at % len(words)]
        if word.lower().startswith("0x"):
            data[at * size : (at + 1) * size] = int(word, 16).to_bytes(size, "little")
    return bytes(data)


def parsed(text: str, source: str, origins: Sequence[str] = (), names: Sequence[str] = ()) -> SourceModule:
    """Parse a text in the generic form. GraphError with file, line and cause for any other text.

    ``origins``: for a text made from another form, the origin of each operation, in their order; else it is
    its line. ``names``: of the inputs.
    """
    context = Context(allow_unregistered=True)
    context.load_dialect(Builtin)
    parser = _Parser(context, without_locations(text), source)
    try:
        module = parser.parse_module()
    except ParseError as error:
        line = 1 + text.count("\n", 0, error.span.start)
        raise GraphError([f"{source}:{line}: cannot be parsed: {_first(error.msg)}"]) from None
    except Exception as error:  # the parsers of attributes and operations raise errors of many classes
        raise GraphError([f"{source}: cannot be parsed: {_first(str(error))}"]) from None
    ops = list(module.walk())
    if len(origins) == len(ops):
        labels = [str(at) for at in range(len(ops))]
        places = [f"{source}, {origin}" for origin in origins]
    else:
        labels = _distinct([str(parser.lines.get(op, 1)) for op in ops])
        places = [f"{source}:{parser.lines.get(op, 1)}" for op in ops]
    found = dict(zip(ops, labels, strict=True)), dict(zip(ops, places, strict=True))
    return SourceModule(source, module, *found, tuple(names), len(text))


def _distinct(labels: Sequence[str]) -> list[str]:
    """Make labels distinct by numbering repeated ones."""
    seen: dict[str, int] = {}
    found = []
    for label in labels:
        seen[label] = seen.get(label, 0) + 1
        found.append(label if seen[label] == 1 else f"{label}.{seen[label]}")
    return found


def _first(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "no reason given")


_LOCATION = re.compile(r'"(?:[^"\\]|\\.)*"|^#loc\w* = .*$|\bloc\(', re.MULTILINE)


def without_locations(text: str) -> str:
    """Return the text without ``loc(...)`` and without the lines that define them, which become empty."""
    if "loc(" not in text:
        return text
    pieces, at = [], 0
    while found := _LOCATION.search(text, at):
        pieces.append(text[at : found.start()])
        if found[0].startswith('"'):
            pieces.append(found[0])
            at = found.end()
        elif found[0].startswith("#"):
            at = found.end()
        else:
            at = _closed(text, found.end())
    return "".join((*pieces, text[at:]))


_BRACKET = re.compile(r'"(?:[^"\\]|\\.)*"|[()]')


def _closed(text: str, at: int) -> int:
    """Return the position after the bracket that closes the one opened before ``at``."""
    depth = 1
    while depth and (found := _BRACKET.search(text, at)):
        depth += {"(": 1, ")": -1}.get(found[0], 0)
        at = found.end()
    return at if depth == 0 else len(text)
