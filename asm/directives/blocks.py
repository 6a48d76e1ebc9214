"""Conditionals, bodies of other directives of several lines, and .include."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from asm.assembly import Assembly
from asm.diagnostics import Fault
from asm.syntax.expressions import UnknownValue, signed64
from asm.syntax.source import Source, divided, lines_of

from .call import BlockHandler, Call, block, handler

_DEEPEST = 64
"""Largest nesting depth of macros and included files."""

_REPEATS = (".rept", ".rep", ".irp", ".irep", ".irpc", ".irepc")
_OPENS = {".if": ".endif", ".macro": ".endm", **dict.fromkeys(_REPEATS, ".endr")}
_BLOCK = re.compile(
    r"\s*(?:[\w.$]+:\s*)*(\.(?:if\w*|macro|rept?|ire?pc?|endm|endr|endif|else(?:if)?))\b", re.IGNORECASE
)


def _word(line: str) -> str:
    """The block directive that a line holds; every .if is ``.if``."""
    match = _BLOCK.match(line)
    word = match[1].lower() if match is not None else ""
    return ".if" if word.startswith(".if") else word


def end_of(call: Call, closer: str) -> int:
    """Index of the line that closes the block opened at ``call``."""
    lines, open_blocks = call.source.lines, [closer]
    for index in range(call.index + 1, len(lines)):
        word = _word(lines[index])
        if word in _OPENS:
            open_blocks.append(_OPENS[word])
        elif word == open_blocks[-1]:
            open_blocks.pop()
            if not open_blocks:
                return index
    raise Fault(f"{call.name} without {closer}")


def bodied(closer: str) -> Callable[[Callable[[Call, int], None]], BlockHandler]:
    """Decorate a directive whose body ends at ``closer``; after a mistake the body is skipped as well."""

    def wrap(function: Callable[[Call, int], None]) -> BlockHandler:
        def carry_out(call: Call) -> int:
            end = end_of(call, closer)
            try:
                function(call, end)
            except UnknownValue as unknown:
                fault = Fault(f"the value must be known here, found {unknown.what}", unknown.at)
                call.assembly.report(call.source, call.index, fault, call.start)
            except Fault as fault:
                line = call.source.lines[call.index]
                call.assembly.report(call.source, call.index, fault, len(line) - len(line.lstrip()))
            return end

        return carry_out

    return wrap


def _skip(call: Call, index: int) -> int:
    """Skip a part of a conditional; returns the index of the .else, .elseif or .endif after it."""
    depth, lines = 0, call.source.lines
    for number in range(index + 1, len(lines)):
        word = _word(lines[number])
        if word == ".if":
            depth += 1
        elif word == ".endif" and depth:
            depth -= 1
        elif word in (".endif", ".else", ".elseif") and not depth:
            return number
    return len(lines)


@block(
    *(".if", ".ifdef", ".ifndef", ".ifnotdef", ".ifeq", ".ifne", ".iflt", ".ifle", ".ifgt", ".ifge"),
    *(".ifb", ".ifnb", ".ifc", ".ifnc", ".ifeqs", ".ifnes"),
)
def _if(call: Call) -> int:
    call.source.conditions.append((call.index, False))
    return _branch(call, _holds(call), call.index)


_TESTS: dict[str, Callable[[int], bool]] = {
    ".if": lambda v: v != 0,
    ".ifne": lambda v: v != 0,
    ".ifeq": lambda v: v == 0,
    ".iflt": lambda v: v < 0,
    ".ifle": lambda v: v <= 0,
    ".ifgt": lambda v: v > 0,
    ".ifge": lambda v: v >= 0,
}


_TEXTS = {".ifc": True, ".ifeqs": True, ".ifnc": False, ".ifnes": False}
"""Directives that compare two texts; True if the texts must be equal."""


def _compared(call: Call) -> tuple[str, str]:
    """Return the two texts that a condition compares; .ifeqs and .ifnes take strings."""
    fields, strings = call.fields(), call.name in (".ifeqs", ".ifnes")
    if len(fields) != 2 or (strings and not all(text[:1] == text[-1:] == '"' for text in fields)):
        raise Fault(
            f"{call.name} takes two {'strings' if strings else 'texts'}, found {call.arguments or 'none'}"
        )
    return fields[0], fields[1]


def _holds(call: Call) -> bool:
    """Return True if the condition holds; a faulty condition is reported and counts as false."""
    try:
        if call.name in (".ifdef", ".ifndef", ".ifnotdef"):
            (name,) = call.symbol_names() if len(call.fields()) == 1 else [""]
            if not name:
                raise Fault(f"{call.name} takes one name")
            symbol = call.assembly.program.symbols.get(name)
            return (symbol is not None and symbol.defined) == (call.name == ".ifdef")
        if call.name in (".ifb", ".ifnb"):
            return (not call.arguments) == (call.name == ".ifb")
        if call.name in _TEXTS:
            first, second = _compared(call)
            return (first == second) == _TEXTS[call.name]
        test = ".if" if call.name == ".elseif" else call.name
        truth = test in (".if", ".ifeq", ".ifne")
        return _TESTS[test](signed64(call.numbers(1, 1, truth=truth)[0]))
    except UnknownValue as unknown:
        fault = Fault(f"{call.name}: the value must be known here, found {unknown.what}", unknown.at)
        call.assembly.report(call.source, call.index, fault, call.start)
    except Fault as fault:
        call.assembly.report(call.source, call.index, fault, call.start)
    return False


def _branch(call: Call, taken: bool, index: int) -> int:
    """Return the index of the line after which assembly continues: the condition's line if it holds,
    otherwise that of the alternative that holds, or of the .endif."""
    source = call.source
    while not taken:
        index = _skip(call, index)
        word = _word(source.lines[index]) if index < len(source.lines) else ""
        if word == ".elseif":
            at = source.lines[index].index(".elseif") + len(".elseif")
            taken = _holds(replace(call, index=index, name=".elseif", text=source.lines[index], start=at))
        elif word == ".else":
            source.conditions[-1] = (source.conditions[-1][0], True)
            taken = True
        else:
            if index < len(source.lines):
                source.conditions.pop()
            return index
    return index


@block(".else", ".elseif")
def _else(call: Call) -> int:
    """Skip the rest of a conditional, because an earlier part was assembled."""
    if not call.source.conditions:
        raise Fault(f"{call.name} without .if")
    if call.source.conditions[-1][1]:
        raise Fault(f"{call.name} after .else")
    index, seen_else = call.index, call.name == ".else"
    while index < len(call.source.lines):
        index = _skip(call, index)
        word = _word(call.source.lines[index]) if index < len(call.source.lines) else ""
        if word == ".endif":
            call.source.conditions.pop()
            break
        seen_else = _alternative(call, index, word, seen_else)
    return index


def _alternative(call: Call, index: int, word: str, seen_else: bool) -> bool:
    """Return whether the .else was seen; reports an alternative that follows the .else."""
    if word and seen_else:
        line = call.source.lines[index]
        fault = Fault(f"{word} after .else", len(line) - len(line.lstrip()))
        call.assembly.report(call.source, index, fault)
    return seen_else or word == ".else"


@block(".endif")
def _endif(call: Call) -> int:
    if not call.source.conditions:
        raise Fault(".endif without .if")
    call.source.conditions.pop()
    return call.index


@block(".endm", ".endr")
def _stray(call: Call) -> int:
    raise Fault(f"{call.name} without {'.macro' if call.name == '.endm' else '.rept'}")


def run(assembly: Assembly, outer: Source, index: int, inner: Source, note: str) -> None:
    """Assemble the lines that replace a line of ``outer``; the line table names the replaced line."""
    assembly.program.volume.expand(inner.lines or [""])
    inner.depth = outer.depth + 1
    if inner.depth > _DEEPEST:
        raise Fault(
            f"macros call one another more than {_DEEPEST} deep", None, "does one of them call itself?"
        )
    inner.file, inner.expanded = outer.file, True
    inner.line = outer.row_line(index)
    inner.notes = (note, *outer.notes)
    assembly.run(inner)


@handler(".include")
def _include(call: Call) -> None:
    path, data = call.included(call.string())
    source = call.source
    if source.depth + 1 > _DEEPEST:
        raise Fault(
            f"files include one another more than {_DEEPEST} deep", None, "does one of them include itself?"
        )
    try:
        text = bytes(data).decode()
    except UnicodeDecodeError as error:
        raise Fault(f"{path} is not UTF-8 text: byte {error.start}") from None
    lines = lines_of(text)
    if path in call.assembly.brought:
        call.assembly.program.volume.expand(lines)
    call.assembly.bring(path, data, 0)
    notes = (f"note: included at {source.where(call.index)}", *source.notes)
    included = divided(Source(str(path), lines, 1, str(path), notes=notes, depth=source.depth + 1))
    call.assembly.check_text(included, text)
    call.assembly.run(included)


@handler(".end")
def _end_of_program(call: Call) -> None:
    call.assembly.ended = True


def finish_source(assembly: Assembly, source: Source) -> None:
    """Report the conditionals that are still open at the end of a source."""
    for index, _ in source.conditions:
        assembly.report(
            source,
            index,
            Fault(".if without .endif", len(source.lines[index]) - len(source.lines[index].lstrip())),
        )
