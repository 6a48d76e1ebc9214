"""The nearest known word of a message: the one that ``difflib`` finds, in a fraction of its time."""

from __future__ import annotations

from difflib import get_close_matches

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tx8isa.table import registry
from tx8isa.tools.suggestions import did_you_mean

WORDS = st.text("abcd.", min_size=1, max_size=8)
KNOWN = sorted(registry.full_mnemonics())


def nearest(word: str, known: list[str]) -> str:
    found = get_close_matches(word, known, n=1, cutoff=0.6)
    return f"did you mean '{found[0]}'?" if found else ""


@given(WORDS, st.lists(WORDS, unique=True))
def test_the_nearest_of_any_words(word: str, known: list[str]) -> None:
    assert did_you_mean(word, known) == nearest(word, known)


@pytest.mark.parametrize(
    "word", ["ct.ad.vv.fp16", "rdma.fp", "ne.con.fp16", "zzz", "td.memset.int3", "cr.add.vv.fp16"]
)
def test_the_nearest_of_all_mnemonics(word: str) -> None:
    assert did_you_mean(word, KNOWN) == nearest(word, KNOWN)


def test_case_does_not_count() -> None:
    assert did_you_mean("IMAGE", ["x", "Images"]) == "did you mean 'Images'?"
