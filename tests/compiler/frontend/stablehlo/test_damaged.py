"""Modules with a random edit are read, or refused in one line; nothing else happens."""

from __future__ import annotations

import re
from pathlib import Path
from random import Random

import pytest

from compiler.graph import GraphError
from stablehlo_cases import case_names, case_text, graph_of_text

CASES = [(family, name) for family, name in case_names() if len(case_text(family, name)) < 4000]


def edited(text: str, random: Random) -> str:
    """The text with one change: a number, a word, a bracket, or an omitted line."""
    kind = random.choice(("number", "number", "word", "bracket", "line"))
    if kind == "line":
        lines = text.splitlines(keepends=True)
        del lines[random.randrange(len(lines))]
        return "".join(lines)
    pattern = {"number": r"\b\d+\b", "word": r"[a-z_]{3,}", "bracket": r"[\[\](){}<>]"}[kind]
    place = random.choice(list(re.finditer(pattern, text)))
    other = {"number": ("0", "7", "-1", "99999999999"), "word": ("x", "i32", ""), "bracket": ("", "[", ">")}[
        kind
    ]
    return text[: place.start()] + random.choice(other) + text[place.end() :]


@pytest.mark.parametrize("seed", range(120))
def test_an_edit_is_refused_or_read(seed: int, tmp_path: Path) -> None:
    random = Random(seed)
    try:
        graph_of_text(tmp_path, edited(case_text(*random.choice(CASES)), random))
    except GraphError as error:
        assert all("\n" not in message for message in error.messages)
