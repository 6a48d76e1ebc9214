"""What the command lines have in common."""

from __future__ import annotations

import sys
from collections.abc import Sequence


def with_value(arguments: Sequence[str] | None, option: str, value: str) -> list[str]:
    """The arguments (None: those of the process) with ``option`` alone spelt ``option=value``.

    So what follows an option whose value may be left out is never taken for the value.
    """
    given = sys.argv[1:] if arguments is None else arguments
    return [f"{option}={value}" if argument == option else argument for argument in given]
