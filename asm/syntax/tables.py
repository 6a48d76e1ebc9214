"""The parser of ``grammar.lark``, whose tables are in a data file next to the grammar.

To compute them takes longer than to assemble most programs.

    python -m asm.syntax.tables            write grammar.json again, after an edit of the grammar
    python -m asm.syntax.tables --check    exit status 1 when it is not what Lark computes
"""

from __future__ import annotations

import hashlib
import json
import sys
from operator import itemgetter
from pathlib import Path
from typing import Any

import lark
from lark.grammar import Rule
from lark.lexer import TerminalDef

from tx8isa.tools.files import write_whole

_GRAMMAR = Path(__file__).with_name("grammar.lark")
TABLES = Path(__file__).with_name("grammar.json")
"""The file with the result of ``tables_text``, for the grammar and the release of Lark that it names."""

_SHIFT = 0
"""The number of an action that reads a token and goes to a state; the other one applies a rule."""


def parser() -> lark.Lark:
    """A parser of the grammar; its tables are computed when another Lark or grammar made the stored ones."""
    stored = json.loads(TABLES.read_text(encoding="utf-8"), object_hook=_numbered)
    if stored["made of"] != _origin():
        return computed_parser()
    load: Any = lark.Lark._load_from_dict  # what Lark's own generator of parsers uses
    found: lark.Lark = load(stored["data"], stored["memo"])
    return found


def computed_parser() -> lark.Lark:
    """A parser whose tables Lark computes from the grammar."""
    grammar = _GRAMMAR.read_text(encoding="utf-8")
    return lark.Lark(grammar, parser="lalr", propagate_positions=True, maybe_placeholders=False)


def tables_text() -> str:
    """The tables as JSON, one state of the parser a line."""
    data, memo = computed_parser().memo_serialize([TerminalDef, Rule])
    data["parser"]["parser"] = _in_order(data["parser"]["parser"])
    text = json.dumps({"made of": _origin(), "data": data, "memo": memo}, sort_keys=True)
    return text.replace('}, "', '},\n"') + "\n"


def _in_order(table: dict[str, Any]) -> dict[str, Any]:
    """The table with tokens in the order of their names, and states in the order in which they are reached.

    Lark numbers both in the order of its sets, which differs from run to run.
    """
    names = sorted(table["tokens"].values())
    number = {token: names.index(name) for token, name in table["tokens"].items()}
    states = {
        state: sorted(((number[token], action) for token, action in actions.items()), key=itemgetter(0))
        for state, actions in table["states"].items()
    }
    reached = list(table["start_states"].values())
    for state in reached:  # grows
        shifts = (target for _, (kind, target) in states[state] if kind == _SHIFT)
        reached += dict.fromkeys(target for target in shifts if target not in reached)
    place = {state: index for index, state in enumerate(reached)}
    return {
        "tokens": dict(enumerate(names)),
        "states": {place[state]: _moved(states[state], place) for state in reached},
        "start_states": {name: place[state] for name, state in table["start_states"].items()},
        "end_states": {name: place[state] for name, state in table["end_states"].items()},
    }


def _moved(actions: list[tuple[int, Any]], place: dict[int, int]) -> dict[int, Any]:
    """Actions of a state by token, with the new numbers of the states to which they shift."""
    return {token: (kind, place[to] if kind == _SHIFT else to) for token, (kind, to) in actions}


def _origin() -> list[str]:
    """The release of Lark and a digest of the grammar; tables with another origin are computed again."""
    return [f"lark {lark.__version__}", hashlib.sha256(_GRAMMAR.read_bytes()).hexdigest()]


def _numbered(mapping: dict[str, Any]) -> dict[Any, Any]:
    """States and memoized objects have numbers, which JSON writes as texts."""
    return {int(key) if key.isdecimal() else key: value for key, value in mapping.items()}


def main(arguments: list[str]) -> int:
    """Write the tables, or compare them."""
    if arguments not in ([], ["--check"]):
        print("usage: python -m asm.syntax.tables [--check]", file=sys.stderr)
        return 2
    text = tables_text()
    if not arguments:
        write_whole(TABLES, text.encode())
    elif TABLES.read_text(encoding="utf-8") != text:
        print(f"{TABLES.name} is not what Lark computes: run python -m asm.syntax.tables", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
