"""Suggestions for an unknown word in a message."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

_LEAST = 0.6
"""The least likeness, 0 to 1, of a word that is suggested."""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """``did you mean 'x'?`` with the nearest known word whatever its case; empty when none is near."""
    by_folded = {name.casefold(): name for name in known}
    near = _nearest(word.casefold(), by_folded)
    return f"did you mean '{by_folded[near]}'?" if near else ""


def _nearest(word: str, known: Iterable[str]) -> str:
    """The first of ``difflib.get_close_matches``, which would look closely at each of thousands of words."""
    from difflib import SequenceMatcher  # only a mistake needs it

    matcher = SequenceMatcher(b=word)
    letters = Counter(word)
    bounded = sorted(((_most_alike(word, letters, name), name) for name in known), reverse=True)
    best = (_LEAST, "")
    for bound, name in bounded:
        if bound < best[0]:
            break
        matcher.set_seq1(name)
        best = max(best, (matcher.ratio(), name))
    return best[1]


def _most_alike(word: str, letters: Counter[str], name: str) -> float:
    """Upper bound on the likeness of two words: as if their common letters had the same order."""
    common = sum(min(name.count(letter), count) for letter, count in letters.items())
    return 2.0 * common / (len(word) + len(name)) if name or word else 1.0


def hint(word: str, known: Iterable[str]) -> str:
    """``; did you mean 'x'?``, to be added to a message; empty when no known word is near."""
    text = did_you_mean(word, known)
    return f"; {text}" if text else ""
