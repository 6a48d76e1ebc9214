"""Writes docs/operators.md, the table of supported operators, from their records and lowerings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cache
from types import CodeType, FunctionType
from typing import Any

from compiler.lowering import LOWERINGS
from compiler.lowering.record import EVERY_TYPE, Engine, Lowering
from compiler.operators import OPERATORS, Attribute, Input, Operator

OLDEST_JSON_OPSET = 17
"""The oldest operator set of graph.json; the table does not mention changes up to it."""


def support_table() -> str:
    """Return the Markdown page: a table of all operators that a graph may use, then a section about each."""
    names = sorted(name for name, record in OPERATORS.items() if not record.internal)
    lines = ["| operator | since | computed by |", "|---|---|---|"]
    lines += [
        f"| [{n}](#{_anchor(n)}) | {OPERATORS[n].since} | {'; '.join(_ways(OPERATORS[n]))} |" for n in names
    ]
    return "\n".join([*lines, "", *(_section(OPERATORS[name]) for name in names)])


def _anchor(name: str) -> str:
    """Return the anchor of the heading of an operator."""
    return name.lower().replace(".", "")


def _section(record: Operator) -> str:
    lines = [f"### {record.name}", "", f"{record.summary}. Since opset {record.since}.", ""]
    lines += [f"- input `{item.name}`: {_input_text(item)}" for item in record.inputs]
    lines += [f"- attribute `{item.name}`: {_attribute_text(item)}" for item in record.attributes]
    lines += [f"- rule: {item.text}." for item in record.rules]
    lines += [f"- computed by: {way}." for way in _ways(record)]
    lines += [f"- refused: {text}." for text in _refusals(record)]
    return "\n".join(lines) + "\n"


def _input_text(item: Input) -> str:
    words = [", ".join(item.types.allowed)]
    words += ["optional"] * item.optional + ["one or more"] * item.variadic + ["a constant"] * item.constant
    words += [f"since opset {item.since}"] * (item.since > OLDEST_JSON_OPSET)
    return "; ".join(words)


def _attribute_text(item: Attribute) -> str:
    words = ["list of integers" if item.kind == "ints" else {"int": "integer"}.get(item.kind, item.kind)]
    if item.allowed:
        words.append("one of " + ", ".join(map(str, item.allowed)))
    if item.minimum is not None:
        words.append(f"at least {item.minimum}")
    if item.required:
        words.append("required")
    elif item.default is not None:
        words.append(f"default {item.default}")
    words += [f"since opset {item.since}"] * (item.since > OLDEST_JSON_OPSET)
    words += [f"up to opset {item.until}"] * (item.until is not None)
    return "; ".join(words)


def _ways(record: Operator) -> Iterator[str]:
    """Yield the ways in which an operator is computed: by units of the chip, other operators, or no code."""
    entry = LOWERINGS.get(record.name)
    if entry is not None:
        yield _unit(entry)
    if record.expansion is not None:
        parts = ", ".join(sorted(_parts(record))) or "constants alone"
        yield f"{'some calls ' if entry is not None else ''}in terms of {parts}"


def _unit(entry: Lowering) -> str:
    """Return the unit that computes the operator of a lowering, as its record says."""
    if entry.lower is None:
        return "no code: the same bytes in another shape"
    if not entry.engines:
        return "kernel core, element by element"
    engines = engines_text(entry.engines)
    if entry.on_core is None:
        return engines
    return f"{engines}; kernel core {(entry.on_core.__doc__ or '').strip()}"


def engines_text(engines: Iterable[Engine]) -> str:
    """Return the names of engines: ``matrix and vector engines``."""
    chosen = set(engines)
    names = [engine.value for engine in Engine if engine in chosen]
    plural = "s" if len(names) > 1 or names == [Engine.DMA.value] else ""
    return f"{' and '.join(names)} engine{plural}"


def _parts(record: Operator) -> set[str]:
    """Return the operators that an expansion may use.

    Two operators that name each other do not expand to each other, because expansions end. One of them only
    shares code with the other, and is not listed.
    """
    parts = _named_by(record.name)
    return {name for name in parts if record.name not in _named_by(name) or _is_base(name, record.name)}


def _is_base(name: str, other: str) -> bool:
    return name in LOWERINGS and other not in LOWERINGS


@cache
def _named_by(name: str) -> frozenset[str]:
    """Return the operators whose names occur in the code of an expansion and of the functions it calls."""
    found: set[str] = set()
    _collect(OPERATORS[name].expansion, found, set())
    return frozenset(found - {name})


def _collect(value: Any, found: set[str], seen: set[int]) -> None:
    """Add the operators that a value names; functions of the records are searched, with those they call."""
    if isinstance(value, str):
        found |= {value} & set(OPERATORS)
    elif isinstance(value, tuple | list | frozenset):
        for item in value:
            _collect(item, found, seen)
    elif isinstance(value, FunctionType) and id(value) not in seen:
        seen.add(id(value))
        if value.__module__.startswith("compiler.operators."):
            _collect_code(value.__code__, value, found, seen)
            for cell in value.__closure__ or ():
                _collect(cell.cell_contents, found, seen)


def _collect_code(code: CodeType, function: Callable[..., Any], found: set[str], seen: set[int]) -> None:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            _collect_code(constant, function, found, seen)
        elif constant != function.__doc__:
            _collect(constant, found, seen)
    for name in code.co_names:
        value = function.__globals__.get(name)
        if isinstance(value, FunctionType):
            _collect(value, found, seen)


def _refusals(record: Operator) -> Iterator[str]:
    """Yield the calls that the record of an operator allows and its lowering refuses."""
    entry = LOWERINGS.get(record.name)
    if entry is None or record.expansion is not None:
        return
    allowed = {dtype for item in record.inputs if not item.constant for dtype in item.types.allowed}
    missing = [dtype for dtype in EVERY_TYPE if dtype in allowed and dtype not in entry.types]
    if missing:
        yield f"{', '.join(missing)}, unless the operands are constants"
    if entry.check is not None and entry.check.__doc__:
        yield f"where this is not so: {entry.check.__doc__.strip().rstrip('.')}"
