"""Macros and repetitions: .macro, .rept, .irp and .irpc; arguments are split as in GNU as."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from asm.assembly import Assembly
from asm.diagnostics import Fault
from asm.instructions.operands import expression
from asm.instructions.pseudo import NAMES
from asm.place import Spot
from asm.syntax.expressions import evaluate, number_of
from asm.syntax.source import Source
from tx8isa.table import registry
from tx8isa.table.scalar import scalar_by_mnemonic

from .blocks import bodied, run
from .call import Call, block, handler

_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
_ANGLES = re.compile(r"<(?:!.|[^<>!])*>")
_PIECE = re.compile(r'"(?:[^"\\]|\\.)*"?|\'(?:\\.|[^\'\\])\'?|\s+|.')
_BLANKS = re.compile(r"\s*")
_BETWEEN_WORDS = re.compile(r'(?<=[\w.$])\s+(?=[\w.$\\"])')


def arguments(text: str, alternate: bool = False) -> list[str]:
    """Split the arguments of a macro at commas, between two words, and after a string in double quotes.

    Commas and blanks in brackets do not separate, nor does a comma at the end. ``alternate``: a text in <> is
    a string, too.
    """
    return [text[start:end] for start, end in _spans(text, alternate)]


def _spans(text: str, alternate: bool) -> list[tuple[int, int]]:
    """[start, end) of each argument."""
    text, found, at = text.rstrip(), list[tuple[int, int]](), 0
    while at < len(text):
        start = _skipped(text, at)
        end = _end_of(text, start, alternate)
        found.append((start, start + len(text[start:end].rstrip())))
        at = _skipped(text, end)
        if text.startswith(",", at):
            at += 1
    return found


def _skipped(text: str, at: int) -> int:
    """Index of the next character that is not a blank."""
    blanks = _BLANKS.match(text, at)
    return blanks.end() if blanks is not None else at


def _end_of(text: str, at: int, alternate: bool) -> int:
    string = _STRING.match(text, at) or (_ANGLES.match(text, at) if alternate else None)
    if string is not None:
        return string.end()
    depth = 0
    while at < len(text):
        piece = _PIECE.match(text, at)
        assert piece is not None  # _PIECE matches any character
        depth += (piece[0] in "([") - (piece[0] in ")]")
        if depth <= 0 and (piece[0] == "," or _BETWEEN_WORDS.match(text, at)):
            return at
        at = piece.end()
    return at


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
    body: Source

    def expand(self, assembly: Assembly, source: Source, index: int, text: str, start: int) -> None:
        """Assemble the body with the arguments of a call, which begin at ``start`` of the text."""
        values = self._bind(assembly, source, text[start:])
        note = f"note: in the expansion of macro {self.name} at {source.where(index)}"
        assembly.expansions += 1
        number, lines = assembly.expansions - 1, self.body.lines
        if assembly.remembered.alternate:
            lines = _with_local_names(lines, values, number)
        lines = [_substitute(line, values, number, assembly.remembered.alternate) for line in lines]
        run(assembly, source, index, replace(self.body, lines=lines, macro=True, conditions=[]), note)

    def _bind(self, assembly: Assembly, source: Source, text: str) -> dict[str, str]:
        values: dict[str, str] = {}
        names = [parameter.name for parameter in self.parameters]
        spans = _spans(text, assembly.remembered.alternate)
        for position, (start, end) in enumerate(spans):
            name, equals, value = text[start:end].partition("=")
            if equals and name.strip() in names:
                values[name.strip()] = _value(assembly, source, value.strip())
            elif position < len(names):
                if self.parameters[position].rest:
                    values[names[position]] = text[start:].strip()
                    break
                values[names[position]] = _value(assembly, source, text[start:end])
            else:
                raise Fault(f"macro {self.name} takes {len(names)} arguments, found {len(spans)}")
        for parameter in self.parameters:
            if not values.get(parameter.name):
                if parameter.required:
                    raise Fault(f"macro {self.name}: argument {parameter.name} is missing")
                values[parameter.name] = parameter.default
        return values


def _unquote(text: str) -> str:
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] == '"' else text


def _value(assembly: Assembly, source: Source, text: str) -> str:
    """The text that an argument stands for; after .altmacro also of <text> and of %expression."""
    if assembly.remembered.alternate and _ANGLES.fullmatch(text):
        return re.sub(r"!(.)", r"\1", text[1:-1])
    if assembly.remembered.alternate and text.startswith("%"):
        operands = assembly.operands(source, 0, text, 1)
        node = expression(operands.items[0].term, "%") if len(operands.items) == 1 else None
        if node is None:
            raise Fault(f"one expression is expected after %, found {len(operands.items)}")
        spot = Spot(assembly.program, assembly.section.here)
        return str(number_of(evaluate(node, operands.atoms, spot)))
    return _unquote(text)


_LOCAL = re.compile(r"\s*LOCAL\s+(.*)", re.IGNORECASE)


def _with_local_names(body: Sequence[str], values: dict[str, str], number: int) -> list[str]:
    """Remove LOCAL lines; their names get values that differ in every expansion."""
    lines = list[str]()
    for line in body:
        match = _LOCAL.fullmatch(line)
        names = re.findall(r"[\w.$]+", match[1]) if match is not None else []
        values.update((name, f".LL{number}_{name}") for name in names)
        lines.append("" if match is not None else line)
    return lines


_REFERENCE = re.compile(r"\\(@|\(\)|[A-Za-z_][\w$]*)")
_ALTERNATE = re.compile(r'"(?:[^"\\]|\\.)*"|\\(@|\(\))|(?<![\w.$])(&?\\?)([A-Za-z_][\w$]*)(&?)')


def _substitute(line: str, values: Mapping[str, str], number: int, alternate: bool = False) -> str:
    def value(match: re.Match[str]) -> str:
        name = match[1]
        if name == "@":
            return str(number)
        return "" if name == "()" else values.get(name, match[0])

    def word(match: re.Match[str]) -> str:
        if match[0][0] == '"':  # in a string & and \ mark a name
            return re.sub(r"[&\\]([A-Za-z_][\w$]*)(?:&(?!\w))?", lambda m: values.get(m[1], m[0]), match[0])
        if match[1]:
            return str(number) if match[1] == "@" else ""
        return values.get(match[3], match[0])

    if alternate:
        return _ALTERNATE.sub(word, line)
    return _REFERENCE.sub(value, line) if "\\" in line else line


@handler(".altmacro", ".noaltmacro")
def _alternate(call: Call) -> None:
    """Turn on .altmacro: arguments need no backslash, and macros may have LOCAL names and %expressions."""
    call.assembly.remembered.alternate = call.name == ".altmacro"


@block(".macro")
@bodied(".endm")
def _macro(call: Call, end: int) -> None:
    head = re.match(r"\s*([A-Za-z_.$][\w.$]*)\s*,?(.*)", call.text[call.start :])
    if head is None:
        raise Fault(".macro takes a name and parameters")
    name = head[1].lower()
    if registry.find(name) or name in scalar_by_mnemonic() or name in NAMES:
        raise Fault(f"{name} is an instruction and cannot be a macro")
    if name in call.assembly.macros:
        raise Fault(f"macro {name} is defined twice")
    parameters = tuple(_parameter(text) for text in arguments(head[2]))
    macro = Macro(name, parameters, call.source.body(call.index + 1, end))
    call.assembly.macros[name] = partial(macro.expand, call.assembly)


def _parameter(text: str) -> Parameter:
    match = re.fullmatch(r"([A-Za-z_][\w$]*)(?:\s*:\s*(req|vararg))?(?:\s*=\s*(.*))?", text)
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
        if call.assembly.macros.pop(name.lower(), None) is None:
            raise Fault(f"there is no macro {name}")


@block(".rept", ".rep")
@bodied(".endr")
def _repeat(call: Call, end: int) -> None:
    (count,) = call.numbers(1, 1)
    most = call.assembly.program.volume.MOST_LINES
    if not 0 <= count <= most:
        raise Fault(f".rept {count} is outside 0..{most}")
    _repeat_lines(call, end, [{}] * count)


@block(".irp", ".irep")
@bodied(".endr")
def _each(call: Call, end: int) -> None:
    name, *values = arguments(call.arguments) or [""]
    if not re.fullmatch(r"[A-Za-z_]\w*", name):
        raise Fault(".irp takes a parameter and values, as .irp x, 1, 2, 3")
    _repeat_lines(call, end, [{name: _unquote(value)} for value in values or [""]])


@block(".irpc", ".irepc")
@bodied(".endr")
def _each_character(call: Call, end: int) -> None:
    fields = arguments(call.arguments)
    if len(fields) != 2:
        raise Fault(".irpc takes a parameter and characters, as .irpc x, abc")
    _repeat_lines(call, end, [{fields[0]: character} for character in _unquote(fields[1])])


def _repeat_lines(call: Call, end: int, values: list[dict[str, str]]) -> None:
    body = call.source.body(call.index + 1, end)
    for number, value in enumerate(values):
        lines = [_substitute(line, value, number) if value else line for line in body.lines]
        note = f"note: in repetition {number + 1} of {call.name} at {call.source.where(call.index)}"
        run(call.assembly, call.source, call.index, replace(body, lines=lines, conditions=[]), note)
