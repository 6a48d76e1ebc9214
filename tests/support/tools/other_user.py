"""Runs a function in a process of another user, which only root can do."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable

import pytest

NOBODY = 65534


def as_other_user(what: Callable[[], object]) -> str:
    """Return a function's result as text from another user's process; skips the test unless root runs it."""
    if os.geteuid() != 0:
        pytest.skip("only root starts a process of another user")
    heard, said = os.pipe()
    process = os.fork()
    if not process:
        try:
            os.setgroups([])
            os.setresgid(NOBODY, NOBODY, NOBODY)
            os.setresuid(NOBODY, NOBODY, NOBODY)
            os.write(said, str(what()).encode())
        except BaseException:
            os.write(said, traceback.format_exc().encode())
        finally:
            os._exit(0)
    os.close(said)
    with os.fdopen(heard, "rb") as file:
        text = file.read().decode()
    os.waitpid(process, 0)
    return text
