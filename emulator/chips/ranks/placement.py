"""Assigns chips to ranks: by a rule, or by a list."""

from __future__ import annotations

from tx8isa.errors import Tx8Error

BLOCK, CYCLIC = "block", "cyclic"


def placed(text: str, chips: int, ranks: int) -> list[int]:
    """Return the rank of each chip; Tx8Error for ranks or a list that do not fit the chips.

    ``block``: consecutive chips are on one rank. ``cyclic``: consecutive chips are on different ranks.
    Otherwise the text is a list, ``0,0,0,1``: the rank of chip 0, of chip 1 and so on.
    """
    if text not in (BLOCK, CYCLIC):
        return _listed(text, chips, ranks)
    if chips % ranks:
        allowed = ", ".join(str(count) for count in range(1, chips + 1) if chips % count == 0)
        raise Tx8Error(
            f"{ranks} ranks for {chips} chips: expected a number that divides them ({allowed}), or the rank "
            f"of each chip, such as --placement {','.join(str(chip % ranks) for chip in range(chips))}"
            if ranks < chips
            else f"{ranks} ranks for {chips} chip{'s' if chips > 1 else ''}: expected one of {allowed}"
        )
    each = chips // ranks
    return [chip // each if text == BLOCK else chip % ranks for chip in range(chips)]


def _listed(text: str, chips: int, ranks: int) -> list[int]:
    words = text.split(",")
    if not all(word.isdecimal() for word in words):
        raise Tx8Error(f"--placement {text}: expected {BLOCK}, {CYCLIC} or numbers of ranks such as 0,0,1,1")
    found = [int(word) for word in words]
    if len(found) != chips:
        raise Tx8Error(f"--placement {text}: found {len(found)} ranks, expected one for each of {chips}")
    if max(found) >= ranks:
        raise Tx8Error(f"--placement {text}: found rank {max(found)}, expected 0..{ranks - 1}")
    idle = sorted(set(range(ranks)) - set(found))
    if idle:
        raise Tx8Error(f"--placement {text}: rank {idle[0]} has no chip, expected one for each rank")
    return found
