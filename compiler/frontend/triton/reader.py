"""Reads TTIR: Lark parses the text, this module makes operations from the tree."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import lark

from .branches import structured
from .operations import Block, Location, TtirError, TtirKernel, TtirOperation, TtirType, parse_type

Tree = lark.Tree[Any]

_FUNCTION = "tt.func"
_ENDS = ("scf.yield", "scf.condition", "tt.reduce.return", "tt.scan.return", "tt.map_elementwise.return")
"""Operations that end the block of a region."""
_MOST_SHOWN = 30
"""The most characters of a text that a message quotes."""


@lru_cache(maxsize=1)
def _parser() -> lark.Lark:
    grammar = Path(__file__).with_name("grammar.lark").read_text()
    return lark.Lark(grammar, parser="lalr", maybe_placeholders=True)


def read_kernels(path: Path) -> tuple[TtirKernel, ...]:
    """Read the kernels of a file; TtirError with line and column if it is not TTIR; OSError."""
    try:
        return parse_kernels(path.read_text(), str(path))
    except UnicodeDecodeError:
        raise TtirError(f"{path}: not a text in UTF-8, so not TTIR") from None


def parse_kernels(text: str, file: str = "kernel") -> tuple[TtirKernel, ...]:
    """Parse the kernels of a text, at least one.

    TtirError as for a file, which ``file`` names in messages.
    """
    try:
        tree = _parser().parse(text)
    except lark.exceptions.UnexpectedInput as error:
        raise TtirError(_unexpected(error, text, file)) from None
    made = _Maker(file, _aliases(tree))
    kernels = tuple(made.kernels(tree))
    if not kernels:
        raise TtirError(f"{file}: no kernel: expected a module with a {_FUNCTION}, as Triton prints it")
    return kernels


def _unexpected(error: lark.exceptions.UnexpectedInput, text: str, file: str) -> str:
    lines = text.splitlines()
    if isinstance(error, lark.exceptions.UnexpectedToken) and error.token.type == "$END":
        return f"{file}:{len(lines)}: the text ends too early; expected TTIR as Triton 3 prints it"
    found = lines[error.line - 1][error.column - 1 :][:_MOST_SHOWN].strip()
    return f"{file}:{error.line}:{error.column}: unexpected '{found}'; expected TTIR as Triton 3 prints it"


def _aliases(tree: Tree) -> dict[str, str]:
    """Return the text of every location by the name that the end of the module gives to it."""
    found = [child for child in tree.children if isinstance(child, lark.Tree) and child.data == "alias"]
    return {str(alias.children[0]): str(alias.children[1]) for alias in found}


_PLACE = re.compile(r'"([^"]+)":(\d+):\d+|(#\w+)')
"""A place in a file, or the name of another location; for a call, the place in the callee comes first."""
_MOST_CALLS = 64
"""The most nested calls of a location that are read."""


class _Maker:
    """Makes operations of the statements of one text."""

    def __init__(self, file: str, aliases: dict[str, str]) -> None:
        self.file, self.aliases = file, aliases
        self.home = ""
        """The file of Python with the kernel that is being read."""
        self._known: dict[str, list[tuple[str, int]]] = {}

    def kernels(self, tree: Tree) -> Iterator[TtirKernel]:
        for statement in _subtrees(tree, "statement"):
            name = str(statement.children[1])
            if name == _FUNCTION:
                yield self._kernel(statement)
            elif name == "module":
                for region in _regions(_pieces(statement)):
                    for block in _subtrees(region, "block"):
                        yield from self.kernels(block)

    def _kernel(self, statement: Tree) -> TtirKernel:
        pieces = _pieces(statement)
        symbol = next(str(piece) for piece in pieces if _is(piece, "SYMBOL"))
        parameters = _declared(pieces)
        regions = _regions(pieces)
        self.home = ""
        location = self._location(statement)
        self.home = location.python[0] if location.python else ""
        if not regions:
            raise TtirError(f"{location}: {symbol} has no body")
        return TtirKernel(symbol[1:].strip('"'), self._block(regions[0]), location, parameters)

    def _block(self, region: Tree) -> Block:
        """Return the block of a region; TtirError if there are several that are no conditions."""
        blocks: dict[str, Block] = {}
        for number, tree in enumerate(_subtrees(region, "block")):
            labels = list(_subtrees(tree, "label"))
            parameters = _declared(_pieces(labels[0])) if labels else ()
            name = str(labels[0].children[0]) if labels else str(number)
            blocks[name] = Block(parameters, tuple(map(self._operation, _subtrees(tree, "statement"))))
        return structured(blocks)

    def _operation(self, statement: Tree) -> TtirOperation:
        pieces, name = _pieces(statement), str(statement.children[1]).strip('"')
        values = tuple(str(piece)[1:] for piece in pieces if _is(piece, "VALUE"))
        location = self._location(statement)
        blocks = tuple(_ended(self._block(region), location) for region in _regions(pieces))
        types = tuple(parse_type(str(piece)) for piece in pieces if _is(piece, "TYPE"))
        for kind in types:
            if any(extent & (extent - 1) or not extent for extent in kind.shape):
                raise TtirError(f"{location}: {name}: {kind}: each extent of a block is a power of two")
        if name == "scf.for":
            values, blocks = _loop(values, types, blocks)
        elif name == "scf.while":
            values, blocks = _while(values, types, blocks)
        return TtirOperation(
            name,
            values,
            _results(statement),
            types,
            tuple(str(piece) for piece in pieces if _is(piece, "WORD") or _is(piece, "TARGET")),
            _attributes(pieces),
            blocks,
            location,
        )

    def _location(self, statement: Tree) -> Location:
        token = next(child for child in statement.children if isinstance(child, lark.Token))
        return Location(self.file, token.line or 0, token.column or 0, self._python(statement))

    def _python(self, statement: Tree) -> tuple[str, int] | None:
        """Return the line of Python: the innermost call in the kernel's file, or else the outermost one."""
        last = _pieces(statement)[-1:]
        places = self._places(str(last[0])) if last and _is(last[0], "LOCATION") else []
        own = [place for place in places if place[0] == self.home]
        return own[0] if own else places[-1] if places else None

    def _places(self, text: str) -> list[tuple[str, int]]:
        """Return files and lines of a location, perhaps by names of other locations, the innermost first."""
        found: list[tuple[str, int]] = []
        for file, line, name in _PLACE.findall(text):
            found += self._named(name) if name else [(file, int(line))]
        return found[:_MOST_CALLS]

    def _named(self, name: str) -> list[tuple[str, int]]:
        """Return files and lines of a named location; nothing for one that names itself."""
        if name not in self._known:
            self._known[name] = []
            self._known[name] = self._places(self.aliases.get(name, ""))
        return self._known[name]


def _subtrees(tree: Tree, name: str) -> Iterator[Tree]:
    return (child for child in tree.children if isinstance(child, lark.Tree) and child.data == name)


def _pieces(statement: Tree) -> list[lark.Token | Tree]:
    """Return the pieces of a statement or a label: tokens, attributes and regions."""
    return [piece.children[0] for piece in _subtrees(statement, "piece")]


def _is(piece: lark.Token | Tree, kind: str) -> bool:
    return isinstance(piece, lark.Token) and piece.type == kind


def _regions(pieces: Sequence[lark.Token | Tree]) -> list[Tree]:
    return [piece for piece in pieces if isinstance(piece, lark.Tree) and piece.data == "region"]


def _results(statement: Tree) -> tuple[str, ...]:
    """Return the names of the results; ``%acc:3`` gives numbered ones."""
    found: list[str] = []
    for part in str(statement.children[0] or "").split(","):
        name, _, count = part.strip()[1:].partition(":")
        found += [f"{name}#{number}" for number in range(int(count))] if count else [name] * bool(name)
    return tuple(found)


def _declared(pieces: Sequence[lark.Token | Tree]) -> tuple[tuple[str, TtirType], ...]:
    """Return names and types of parameters: each value is followed by its type."""
    names = [str(piece)[1:] for piece in pieces if _is(piece, "VALUE")]
    types = [parse_type(str(piece)) for piece in pieces if _is(piece, "TYPE")]
    return tuple(zip(names, types, strict=False))


def _ended(block: Block, location: Location) -> Block:
    """Return a block that ends with a terminator; one is added where Triton prints none because nothing is
    returned."""
    if block.operations and block.operations[-1].name in _ENDS:
        return block
    end = TtirOperation("scf.yield", (), (), (), (), {}, (), location)
    return Block(block.parameters, (*block.operations, end))


def _loop(
    values: tuple[str, ...], types: tuple[TtirType, ...], blocks: tuple[Block, ...]
) -> tuple[tuple[str, ...], tuple[Block, ...]]:
    """Read ``scf.for %i = %low to %high step %step iter_args(%a = %b) -> (type) : type``: operands, body.

    The body's parameters are the index and the carried values.
    """
    index, bounds, carried = values[0], values[1:4], values[4:]
    names = (index, *carried[::2])
    kinds = (types[-1], *types[:-1]) if types else ()
    parameters = tuple(zip(names, kinds, strict=False)) if types else ((index, TtirType("i32")),)
    return (*bounds, *carried[1::2]), tuple(Block(parameters, block.operations) for block in blocks)


def _while(
    values: tuple[str, ...], types: tuple[TtirType, ...], blocks: tuple[Block, ...]
) -> tuple[tuple[str, ...], tuple[Block, ...]]:
    """Read operands and regions of ``scf.while (%a = %b) : (type) -> type``; the first gets the starts."""
    before, *rest = blocks
    parameters = tuple(zip(values[::2], types, strict=False))
    return values[1::2], (Block(parameters, before.operations), *rest)


def _attributes(pieces: Sequence[lark.Token | Tree]) -> dict[str, object]:
    """Return the attributes in braces, and those written as ``name = word``."""
    found: dict[str, object] = {}
    for piece in pieces:
        if isinstance(piece, lark.Tree) and piece.data == "attributes":
            for entry in piece.children:
                if entry is not None:
                    found.update([_entry(entry)])
    for before, equals, after in zip(pieces, pieces[1:], pieces[2:], strict=False):
        if _is(equals, "EQUALS") and _is(before, "WORD"):
            found[str(before)] = _value(after)
    for piece in pieces:
        if _is(piece, "DENSE") or _is(piece, "NUMBER"):
            found.setdefault("value", _value(piece))
        elif _is(piece, "STRING"):
            found.setdefault("text", _unescaped(str(piece)[1:-1]))
    return found


def _unescaped(text: str) -> str:
    """Unescape a literal: after a backslash come two hexadecimal digits of a byte, or a character."""
    plain = re.sub(
        rb"\\(?:([0-9A-Fa-f]{2})|(.))",
        lambda found: bytes.fromhex(found[1].decode()) if found[1] else found[2],
        text.encode(),
    )
    return plain.decode(errors="replace")


def _entry(entry: Tree) -> tuple[str, object]:
    name = str(entry.children[0]).strip('"')
    if entry.data == "flag":
        return name, True
    value = entry.children[2]
    return name, _value(value.children[0] if isinstance(value, lark.Tree) else value)


def _value(token: lark.Token | Tree) -> object:
    """Read a number, a tuple of numbers, or anything else as text, also the contents of ``dense<>``."""
    text = str(token)
    if _is(token, "ARRAY"):
        return tuple(map(int, re.findall(r"-?\d+", text.partition(":")[2])))
    if _is(token, "DENSE"):
        return text[len("dense<") : -1]
    if _is(token, "NUMBER") and re.fullmatch(r"-?\d+", text):
        return int(text)
    return text.strip('"') if _is(token, "STRING") else text
