"""Checks that tx8 can run where it was started: the system, and no folder that hides its packages."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

PACKAGES = ("asm", "compiler", "emulator", "tx8isa")
"""The packages that the commands and ``import tx8`` need; other folders may have these common names."""

_SYSTEMS = {"darwin": "macOS", "win32": "Windows", "cygwin": "Cygwin"}
_HOME = Path(__file__).resolve().parent.parent


def refusal() -> str | None:
    """Return one line about why tx8 cannot run here, or None."""
    return _wrong_system() or next(filter(None, map(_hidden, PACKAGES)), None)


def _wrong_system() -> str | None:
    if sys.platform == "linux":
        return None
    found = _SYSTEMS.get(sys.platform, sys.platform)
    return (
        f"tx8 runs on Linux, and this is {found}: "
        "use a container (the Dockerfile in the sources), WSL or a virtual machine"
    )


def _hidden(name: str) -> str | None:
    """Return the mistake in a package of tx8: another one is imported in its place, or it is missing."""
    found = _place(name)
    if found is None:
        return f"tx8 is not complete: its package '{name}' is missing from {_HOME}; install tx8 again"
    if found.resolve() == _HOME / name:
        return None
    return (
        f"{found} hides the package '{name}' of tx8, because its folder comes first in sys.path: "
        "rename it, start Python in another folder, or take the folder out of PYTHONPATH"
    )


def _place(name: str) -> Path | None:
    """Return the folder or file that ``import name`` loads or has loaded."""
    module = sys.modules.get(name)
    spec = find_spec(name) if module is None else getattr(module, "__spec__", None)
    if spec is None:
        file = getattr(module, "__file__", None)
        return Path(file) if file else None
    folders = list(spec.submodule_search_locations or ())
    place = folders[0] if folders else spec.origin
    return Path(place) if place else None
