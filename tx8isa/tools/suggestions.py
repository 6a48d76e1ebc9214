"""Suggestions for an unknown word in a message."""

from __future__ import annotations

from collections.abc import Iterable


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """``did you mean 'x'?`` with the nearest known word whatever its case; empty when none is near."""
    from difflib import get_close_matches  # only a mistake needs it

    by_folded = {name.casefold(): name for name in known}
    near = get_close_matches(word.casefold(), by_folded, n=1, cutoff=0.6)
    return f"did you mean '{by_folded[near[0]]}'?" if near else ""


def hint(word: str, known: Iterable[str]) -> str:
    """``; did you mean 'x'?``, to be added to a message; empty when no known word is near."""
    text = did_you_mean(word, known)
    return f"; {text}" if text else ""
