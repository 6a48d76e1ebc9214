"""The shape of the writer's decoder, for training and for the models that are compiled."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class DecoderShape:
    """Extents of a decoder of the Llama kind; ``heads`` of queries share ``groups`` of keys and values."""

    layers: int
    width: int
    heads: int
    groups: int
    head: int
    hidden: int
    tokens: int
    room: int  # positions that the caches have
    base: float = 10000.0  # of the angles of rotary embeddings
    epsilon: float = 1e-5


SHAPE = DecoderShape(layers=4, width=128, heads=4, groups=2, head=32, hidden=512, tokens=64, room=128)
