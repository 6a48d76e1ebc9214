"""tx8emu as one of several ranks: only rank 0 prints, and a failure of any rank is one line."""

from __future__ import annotations

import io
import sys
import traceback
from collections.abc import Callable

from emulator.chips.ranks.launch import Launched
from emulator.chips.ranks.team import Team
from tx8isa.errors import Tx8Error

Report = Callable[[str, int], int]
"""Prints a line and returns the exit status."""
Guarded = Callable[[Callable[[], int], Report], int]
"""Runs something and reports its errors."""


def run_as_rank(launched: Launched, run: Callable[[Team], int], guarded: Guarded, report: Report) -> int:
    """Run a rank of several; return the exit status."""
    heard = io.StringIO()
    if launched.rank:
        sys.stdout, sys.stderr = io.TextIOWrapper(io.BytesIO()), heard
    try:
        team = Team(launched)
    except Tx8Error as error:
        return report(f"tx8emu: error: {error}", 1)

    def report_of_rank(line: str, status: int) -> int:
        if team.begun and not team.over:
            team.fail(line, status)
        return report(line, status)

    try:
        status = guarded(lambda: run(team), report_of_rank)
    except SystemExit as left:
        status = int(left.code or 0) if isinstance(left.code, int | None) else 1
        if team.begun and not team.over:
            team.fail(_last(heard) or "tx8emu: error: a rank has left", status)
    except BaseException as error:
        if launched.rank:
            traceback.print_exc(file=sys.__stderr__)
        if team.begun and not team.over:
            team.fail(f"tx8emu: error: rank {team.rank}: {type(error).__name__}: {error}", 1)
        raise
    if not team.begun and not team.over:
        team.give_up(_last(heard) or "it has left")
    team.end()
    return status


def _last(heard: io.StringIO) -> str:
    """Return the last line of a silent rank, without the name of the command."""
    lines = heard.getvalue().strip().splitlines()
    return lines[-1].removeprefix("tx8emu: error: ") if lines else ""
