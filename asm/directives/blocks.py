"""Directives of several lines: conditionals, macros, repetitions; and .include."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from asm.assembly import Assembly
from asm.diagnostics import Fault
from asm.instructions.pseudo import NAMES
from asm.syntax.expressions import UnknownValue
from asm.syntax.source import Source, lines_of
from tx8isa.table import registry
from tx8isa.table.scalar import scalar_by_mnemonic

from .call import BlockHandler, Call, block, handler, split_arguments

_DEEPEST = 64
"""Largest depth of macros and included files within each other."""

_OPENS = {".if": ".endif", ".macro": ".endm", ".rept": ".endr", ".irp": ".endr", ".irpc": ".endr"}
_BLOCK = re.compile(
    r"\s*(?:[\w.$]+:\s*)*(\.(?:ifn?def|ifnotdef|if\w*|macro|rept|irpc?|endm|endr|endif|else(?:if)?))\b"
)


def _word(line: str) -> str:
    """The block directive that a line holds; every .if is ``.if``."""
    match = _BLOCK.match(line)
    if match is None:
        return ""
    return ".if" if match[1].startswith(".if") else match[1]


def _end(call: Call, closer: str) -> int:
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


def _bodied(closer: str) -> Callable[[Callable[[Call, int], None]], BlockHandler]:
    """Decorator: a directive whose body ends at ``closer``; the body is skipped after a mistake, too."""

    def wrap(function: Callable[[Call, int], None]) -> BlockHandler:
        def carry_out(call: Call) -> int:
            end = _end(call, closer)
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
    """Index of the .else, .elseif or .endif that follows a part of a conditional that is skipped."""
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


@block(".if", ".ifdef", ".ifndef", ".ifnotdef", ".ifeq", ".ifne", ".iflt", ".ifle", ".ifgt", ".ifge")
def _if(call: Call) -> int:
    call.source.conditions.append((call.index, False))
    return _branch(call, _holds(call), call.index)


_TESTS = {
    ".if": lambda v: v != 0,
    ".ifne": lambda v: v != 0,
    ".ifeq": lambda v: v == 0,
    ".iflt": lambda v: v < 0,
    ".ifle": lambda v: v <= 0,
    ".ifgt": lambda v: v > 0,
    ".ifge": lambda v: v >= 0,
}


def _holds(call: Call) -> bool:
    """Whether the condition is true; one that is at fault is reported and counts as false."""
    try:
        if call.name in (".ifdef", ".ifndef", ".ifnotdef"):
            (name,) = call.symbol_names() if len(call.fields()) == 1 else [""]
            if not name:
                raise Fault(f"{call.name} takes one name")
            symbol = call.assembly.program.symbols.get(name)
            return (symbol is not None and symbol.defined) == (call.name == ".ifdef")
        return bool(_TESTS.get(call.name, _TESTS[".if"])(call.numbers(1, 1)[0]))
    except UnknownValue as unknown:
        fault = Fault(f"{call.name}: the value must be known here, found {unknown.what}", unknown.at)
        call.assembly.report(call.source, call.index, fault, call.start)
    except Fault as fault:
        call.assembly.report(call.source, call.index, fault, call.start)
    return False


def _branch(call: Call, taken: bool, index: int) -> int:
    """Index of the line after which assembly continues: the condition's own when it holds, else that of the
    alternative that does, or of the .endif."""
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
    """The part before was assembled: skip the rest."""
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
    """Whether the .else was seen, now that another alternative follows; one after the .else is reported."""
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


@dataclass(frozen=True, slots=True)
class Parameter:
    name: str
    default: str
    required: bool
    rest: bool


@dataclass(frozen=True, slots=True)
class Macro:
    """Lines with ``\\name`` for the arguments and ``\\@`` for a number that differs in every expansion."""

    name: str
    parameters: tuple[Parameter, ...]
    body: tuple[str, ...]
    file: str
    first: int

    def expand(self, assembly: Assembly, source: Source, index: int, text: str, start: int) -> None:
        """Assemble the body with the arguments of a call, which begin at ``start`` of the text."""
        values = self._bind(split_arguments(text[start:]))
        note = f"note: in the expansion of macro {self.name} at {source.where(index)}"
        assembly.expansions += 1
        lines = [_substitute(line, values, assembly.expansions - 1) for line in self.body]
        _run(assembly, source, index, Source(self.file, lines, self.first, macro=True), note)

    def _bind(self, given: list[str]) -> dict[str, str]:
        values: dict[str, str] = {}
        names = [parameter.name for parameter in self.parameters]
        for position, argument in enumerate(given):
            name, equals, value = argument.partition("=")
            if equals and name.strip() in names:
                values[name.strip()] = _unquote(value.strip())
            elif position < len(names):
                if self.parameters[position].rest:
                    values[names[position]] = ", ".join(given[position:])
                    break
                values[names[position]] = _unquote(argument)
            else:
                raise Fault(f"macro {self.name} takes {len(names)} arguments, found {len(given)}")
        for parameter in self.parameters:
            if not values.get(parameter.name):
                if parameter.required:
                    raise Fault(f"macro {self.name}: argument {parameter.name} is missing")
                values[parameter.name] = parameter.default
        return values


def _unquote(text: str) -> str:
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] == '"' else text


_REFERENCE = re.compile(r"\\(@|\(\)|[A-Za-z_][\w$]*)")


def _substitute(line: str, values: dict[str, str], number: int) -> str:
    def value(match: re.Match[str]) -> str:
        name = match[1]
        if name == "@":
            return str(number)
        return "" if name == "()" else values.get(name, match[0])

    return _REFERENCE.sub(value, line) if "\\" in line else line


@block(".macro")
@_bodied(".endm")
def _macro(call: Call, end: int) -> None:
    head = re.match(r"\s*([A-Za-z_.$][\w.$]*)\s*,?(.*)", call.text[call.start :])
    if head is None:
        raise Fault(".macro takes a name and parameters")
    name = head[1]
    if registry.find(name) or name in scalar_by_mnemonic() or name in NAMES:
        raise Fault(f"{name} is an instruction and cannot be a macro")
    if name in call.assembly.macros:
        raise Fault(f"macro {name} is defined twice")
    names = split_arguments(head[2]) if "," in head[2] else head[2].split()
    parameters = tuple(_parameter(text) for text in names)
    body = tuple(call.source.lines[call.index + 1 : end])
    first = call.source.first + call.index + 1
    macro = Macro(name, parameters, body, call.source.name, first)
    call.assembly.macros[name] = partial(macro.expand, call.assembly)


def _parameter(text: str) -> Parameter:
    match = re.fullmatch(r"([A-Za-z_][\w$]*)(?::(req|vararg))?(?:\s*=\s*(.*))?", text)
    if match is None:
        raise Fault(
            f".macro: {text!r} is not a parameter", None, "write name, name=default, name:req or name:vararg"
        )
    return Parameter(match[1], _unquote(match[3] or ""), match[2] == "req", match[2] == "vararg")


@handler(".exitm")
def _exit_macro(call: Call) -> None:
    if not call.source.macro:
        raise Fault(".exitm outside a macro")
    call.source.conditions.clear()
    del call.source.lines[call.index + 1 :]


@handler(".purgem")
def _purge(call: Call) -> None:
    for name in call.symbol_names():
        if call.assembly.macros.pop(name, None) is None:
            raise Fault(f"there is no macro {name}")


@block(".rept")
@_bodied(".endr")
def _repeat(call: Call, end: int) -> None:
    (count,) = call.numbers(1, 1)
    most = call.assembly.program.volume.MOST_LINES
    if not 0 <= count <= most:
        raise Fault(f".rept {count} is outside 0..{most}")
    _repeat_lines(call, end, [{}] * count)


@block(".irp")
@_bodied(".endr")
def _each(call: Call, end: int) -> None:
    name, *values = call.fields() or [""]
    if not re.fullmatch(r"[A-Za-z_]\w*", name):
        raise Fault(".irp takes a parameter and values, as .irp x, 1, 2, 3")
    _repeat_lines(call, end, [{name: _unquote(value)} for value in values])


@block(".irpc")
@_bodied(".endr")
def _each_character(call: Call, end: int) -> None:
    fields = call.fields()
    if len(fields) != 2:
        raise Fault(".irpc takes a parameter and characters, as .irpc x, abc")
    _repeat_lines(call, end, [{fields[0]: character} for character in _unquote(fields[1])])


def _repeat_lines(call: Call, end: int, values: list[dict[str, str]]) -> None:
    body = call.source.lines[call.index + 1 : end]
    first = call.source.first + call.index + 1
    for number, value in enumerate(values):
        lines = [_substitute(line, value, number) for line in body] if value else body
        note = f"note: in repetition {number + 1} of {call.name} at {call.source.where(call.index)}"
        inner = Source(call.source.name, list(lines), first, macro=call.source.macro)
        _run(call.assembly, call.source, call.index, inner, note)


def _run(assembly: Assembly, outer: Source, index: int, inner: Source, note: str) -> None:
    """Assemble the lines that replace a line of ``outer``; the line table names that line."""
    assembly.program.volume.expand(inner.lines or [""])
    inner.depth = outer.depth + 1
    if inner.depth > _DEEPEST:
        raise Fault(f"macros within each other {_DEEPEST} deep", None, "does one of them call itself?")
    inner.file = outer.file
    inner.line = outer.row_line(index)
    inner.notes = (note, *outer.notes)
    assembly.run(inner)


@handler(".include")
def _include(call: Call) -> None:
    path, data = call.included(call.string())
    source = call.source
    if source.depth + 1 > _DEEPEST:
        raise Fault(
            f"files included within each other {_DEEPEST} deep", None, "does one of them include itself?"
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
    included = Source(str(path), lines, 1, str(path), notes=notes, depth=source.depth + 1)
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
