"""Patterns: sequences of operators that should run in one phase, as named sets or from files.

A set is a TOML file with tables ``[[pattern]]`` of a tag, a sequence and a priority. It has at most one table
for each kind of sequences (``[stack]``, ``[sharded]``, ``[pooled]``), which says which groups may become one
phase.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from compiler.lowering import LOWERINGS
from compiler.lowering.pointwise.chain import CASTS
from compiler.lowering.pointwise.record import POINTWISE
from compiler.operators import OPERATORS
from tx8isa.errors import Tx8Error
from tx8isa.tools.suggestions import hint

from .sequences import ANY, KINDS, SequenceKind

NONE = "none"
"""The set without groups: every operation is a separate phase."""

_KEYS = ("tag", "sequence", "priority")
_SEQUENCE_KEYS = ("tag", "operators", "most")
_FOLDER = Path(__file__).parent


class PatternError(Tx8Error):
    """A set of patterns that cannot be used; the message says where and why."""


@dataclass(frozen=True)
class Pattern:
    """A sequence of operators: the operators that each place allows; ANY allows all."""

    tag: str
    sequence: tuple[tuple[str, ...], ...]
    priority: int = 0


@dataclass(frozen=True)
class SequencePattern:
    """Groups that begin with one of the operators may become a sequence of at most ``most`` groups."""

    kind: SequenceKind
    tag: str
    operators: tuple[str, ...]
    most: int


@dataclass
class PatternTrie:
    """A node of a trie: the patterns whose operators lead to it."""

    pattern: Pattern | None = None
    """The pattern that ends at this node."""
    following: dict[str, PatternTrie] = field(default_factory=dict)
    """The nodes that follow, by the next operator or ANY."""
    sequences: tuple[SequencePattern, ...] = ()
    """The groups that may become sequences; only the root of the trie has them."""

    def add(self, pattern: Pattern, place: int = 0) -> None:
        """Insert a pattern at a place of its sequence.

        Of two patterns with the same sequence the one with the higher priority is kept.
        """
        if place == len(pattern.sequence):
            if self.pattern is None or self.pattern.priority < pattern.priority:
                self.pattern = pattern
            return
        for operator in pattern.sequence[place]:
            self.following.setdefault(operator, PatternTrie()).add(pattern, place + 1)

    def after(self, operator: str) -> list[PatternTrie]:
        """The child nodes that an operator leads to."""
        return [self.following[key] for key in (operator, ANY) if key in self.following]


def named_sets() -> list[str]:
    """The names of the sets that come with the compiler."""
    return sorted([NONE, *(path.stem for path in _FOLDER.glob("*.toml"))])


def load_patterns(name: str) -> PatternTrie | None:
    """A named set, or one from a file whose name ends in .toml; None for the set without groups."""
    if name == NONE:
        return None
    if name not in named_sets() and not name.endswith(".toml"):
        allowed = ", ".join(named_sets())
        raise PatternError(
            f"unknown patterns '{name}'; allowed are {allowed} or a file FILE.toml{hint(name, named_sets())}"
        )
    patterns, sequences = _read(_FOLDER / f"{name}.toml" if name in named_sets() else Path(name))
    trie = PatternTrie(sequences=sequences)
    for pattern in patterns:
        trie.add(pattern)
    return trie


def _read(path: Path) -> tuple[list[Pattern], tuple[SequencePattern, ...]]:
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise PatternError(f"{path}: {error}") from None
    tables = [kind.table for kind in KINDS]
    unknown = [key for key in content if key not in ("pattern", *tables)]
    if unknown or not isinstance(content.get("pattern"), list):
        found = f"'{unknown[0]}'" if unknown else "none"
        raise PatternError(
            f"{path}: expected tables [[pattern]], at most one [{'] and one ['.join(tables)}] "
            f"and nothing else; found {found}"
        )
    patterns = [_pattern(f"{path}: pattern {at}", table) for at, table in enumerate(content["pattern"], 1)]
    return patterns, tuple(
        _sequences(f"{path}: {kind.table}", kind, content[kind.table])
        for kind in KINDS
        if kind.table in content
    )


def _sequences(where: str, kind: SequenceKind, table: Any) -> SequencePattern:
    """A checked table of a kind of sequences; ``where`` is the beginning of messages."""
    if not isinstance(table, dict) or set(table) != set(_SEQUENCE_KEYS):
        raise PatternError(f"{where}: expected a table of {', '.join(_SEQUENCE_KEYS)}; found {table!r}")
    tag, operators, most = (table[key] for key in _SEQUENCE_KEYS)
    if not isinstance(tag, str) or not tag:
        raise PatternError(f"{where}: tag must be a text; found {tag!r}")
    possible = [op for op in (ANY, *OPERATORS) if kind.begins is None or kind.begins(op)]
    if not isinstance(operators, str) or not set(operators.split("|")) <= set(possible):
        allowed = ANY if ANY in possible else "|".join(sorted(possible))
        raise PatternError(f"{where}: operators must be some of {allowed}; found {operators!r}")
    if not isinstance(most, int) or isinstance(most, bool) or most < 2:
        raise PatternError(f"{where}: most must be a number of groups, 2 or more; found {most!r}")
    return SequencePattern(kind, tag, tuple(operators.split("|")), most)


def _pattern(where: str, table: Any) -> Pattern:
    """A checked table ``[[pattern]]``; ``where`` is the beginning of messages."""
    if not isinstance(table, dict):
        raise PatternError(f"{where}: expected a table; found {table!r}")
    for key in table:
        if key not in _KEYS:
            raise PatternError(f"{where}: unknown key '{key}'; allowed are {', '.join(_KEYS)}")
    tag, sequence = table.get("tag"), table.get("sequence")
    if not isinstance(tag, str) or not tag:
        raise PatternError(f"{where}: tag must be a text; found {tag!r}")
    if not isinstance(sequence, list) or len(sequence) < 2:
        raise PatternError(f"{where} ('{tag}'): sequence must list 2 or more operators; found {sequence!r}")
    priority = table.get("priority", 0)
    if not isinstance(priority, int) or isinstance(priority, bool):
        raise PatternError(f"{where} ('{tag}'): priority must be an integer; found {priority!r}")
    places = tuple(_place(f"{where} ('{tag}')", place) for place in sequence)
    _stop_if_impossible(f"{where} ('{tag}')", places)
    return Pattern(tag, places, priority)


def _stop_if_impossible(where: str, places: tuple[tuple[str, ...], ...]) -> None:
    """PatternError for a sequence that no operators can ever run in one phase."""
    for at, operators in enumerate(places):
        if ANY in operators or not set(operators).isdisjoint((*POINTWISE, *CASTS)):
            continue
        anchors = sorted(op for op, entry in LOWERINGS.items() if entry.anchor and not OPERATORS[op].internal)
        if at == 0 and not set(operators).isdisjoint(anchors):
            continue
        if at:
            rule = "only operators that compute each element by itself, such as Add and Relu, follow others"
        else:
            rule = f"several operators in one phase begin with {', '.join(anchors)}, or with one such as Relu"
        names = " or ".join(map(_described, operators))
        raise PatternError(f"{where}: can never match, because of {names}: {rule}")


def _described(operator: str) -> str:
    """An operator of a pattern, with a remark if it is gone when patterns are looked for."""
    written_out = operator not in LOWERINGS and OPERATORS[operator].expansion is not None
    return f"{operator} (which is written as other operators before)" if written_out else operator


def _place(where: str, text: Any) -> tuple[str, ...]:
    """The operators that one place of a sequence allows."""
    operators = tuple(text.split("|")) if isinstance(text, str) else (repr(text),)
    for operator in operators:
        if operator != ANY and operator not in OPERATORS:
            near = hint(operator, OPERATORS)
            raise PatternError(f"{where}: unknown operator '{operator}'{near}")
    return operators
