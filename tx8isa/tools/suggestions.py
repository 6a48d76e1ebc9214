"""Suggestions for an unknown word in a message."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

_LEAST = 0.6
"""The least similarity, 0 to 1, of a suggested word."""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Suggest ``did you mean 'x'?`` with the most similar known word in any case; empty without one."""
    by_folded = {name.casefold(): name for name in known}
    near = _nearest(word.casefold(), by_folded)
    return f"did you mean '{by_folded[near]}'?" if near else ""


def _nearest(word: str, known: Iterable[str]) -> str:
    """Return the first of ``difflib.get_close_matches``; faster for thousands of words."""
    from difflib import SequenceMatcher  # imported here: only a mistake needs it

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
    """Bound the similarity of two words from above, as if their common letters had the same order."""
    common = sum(min(name.count(letter), count) for letter, count in letters.items())
    return 2.0 * common / (len(word) + len(name)) if name or word else 1.0


def hint(word: str, known: Iterable[str]) -> str:
    """Return ``; did you mean 'x'?`` for the end of a message; empty when no known word is similar."""
    text = did_you_mean(word, known)
    return f"; {text}" if text else ""
