"""Kinds of slices as numbers of 16 bits: the graph node, and the instruction or the wait."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from emulator.engines.tables import records
from emulator.timing.slices import Track
from emulator.watch.bins import Ints
from emulator.watch.trace.texts import CAUSES

MOST = 1 << 16
NOBODY = 0
"""The kind of an empty place of a map."""
OTHER = 1
"""The kind of slices for which no number is left."""
_WHATS = 1 << 12
_WAIT = _WHATS // 2
"""A wait of the core is ``_WAIT`` + its cause, an instruction the number of its record + 1."""


class NodeNumbers:
    """Graph nodes by program counter; node 0 is the code that belongs to none."""

    def __init__(self, by_address: Mapping[int, str]) -> None:
        pairs = sorted(by_address.items())
        self.names = ["", *dict.fromkeys(name for _, name in pairs)]
        index = {name: number for number, name in enumerate(self.names)}
        self._addresses = np.array([-1, *(address for address, _ in pairs)], dtype=np.int64)
        self._nodes = np.array([0, *(index[name] for _, name in pairs)], dtype=np.int64)

    def of(self, pcs: Ints) -> Ints:
        """Return the node of each program counter."""
        at = np.searchsorted(self._addresses, pcs, side="right") - 1
        return np.where(self._addresses[at] == pcs, self._nodes[at], 0)


class Kinds:
    """Numbers for pairs of node and instruction, in the order of their appearance."""

    def __init__(self, nodes: NodeNumbers) -> None:
        self.nodes = nodes
        self._numbers: dict[int, int] = {}

    def of(self, slices: npt.NDArray[np.void]) -> Ints:
        """Return the kind of each slice."""
        waits = slices["track"] == Track.CORE
        what = np.where(waits, _WAIT + slices["cause"].astype(np.int64), slices["record"] + 1)
        keys = self.nodes.of(slices["pc"]) * _WHATS + what
        distinct, place = np.unique(keys, return_inverse=True)
        return np.array([self._number(key) for key in distinct.tolist()], dtype=np.int64)[place]

    def _number(self, key: int) -> int:
        free = OTHER + 1 + len(self._numbers)
        return self._numbers.setdefault(key, free) if free < MOST else self._numbers.get(key, OTHER)

    def described(self) -> dict[str, Any]:
        """Return node and name of the instruction, or wait, of each kind, for the page."""
        pairs = [divmod(key, _WHATS) for key in self._numbers]
        names = ["", "other", *(_name(what) for _, what in pairs)]
        return {"node": [0, 0, *(node for node, _ in pairs)], "name": names}


def _name(what: int) -> str:
    if what >= _WAIT:
        return f"wait: {CAUSES[what - _WAIT]}"
    return records()[what - 1].mnemonic if what else "copy"
