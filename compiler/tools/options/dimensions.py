"""The option --dim: sizes of a free dimension."""

from __future__ import annotations

import argparse


def dimension(text: str) -> tuple[str, tuple[int, int, int] | str]:
    """The name and the range of a dimension, from ``seq=1:128:512``, or the sum that it is, ``past+new``."""
    name, _, sizes = text.rpartition("=")
    if name and "+" in sizes:
        return name, sizes
    try:
        least, usual, most = (int(size) for size in sizes.split(":"))
    except ValueError:
        name = ""
    if not name:
        raise argparse.ArgumentTypeError(f"'{text}' is not NAME=LEAST:USUAL:MOST, such as seq=1:128:512")
    return name, (least, usual, most)
