"""Simulated time in a snapshot: the result of ``Simulator.save`` as plain values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from emulator.tile.moment import Moment
from emulator.timing import layout

if TYPE_CHECKING:
    from emulator.timing.simulator import Simulator

_WORDS, _SHAPE = "int64", "shape"
"""Keys of the dictionary that an array becomes."""


def save_time(simulator: Simulator) -> dict[str, Any]:
    """The state of the simulation; host addresses are left out, which it sets before it uses them."""
    saved = simulator.save()
    chip = saved["chip"]
    places = chip[layout.H_TILE_AT] + np.arange(chip[layout.H_TILES]) * chip[layout.H_TILE_WORDS]
    chip[layout.H_OUT] = 0
    chip[places + layout.P_LOG] = 0
    plain: dict[str, Any] = _plain(saved)
    return plain


def restore_time(simulator: Simulator, saved: dict[str, Any]) -> None:
    """The contrary of ``save_time``."""
    found = _arrays(saved)
    found["moments"] = [None if one is None else Moment(*one) for one in found["moments"]]
    simulator.restore(found)


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return {_WORDS: value.astype(np.int64).tobytes(), _SHAPE: list(value.shape)}
    if isinstance(value, dict):
        return {key: _plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    return value


def _arrays(value: Any) -> Any:
    if isinstance(value, dict) and value.keys() == {_WORDS, _SHAPE}:
        return np.frombuffer(value[_WORDS], np.int64).reshape(value[_SHAPE]).copy()
    if isinstance(value, dict):
        return {key: _arrays(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_arrays(part) for part in value]
    return value
