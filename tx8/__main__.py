"""``python -m tx8``: version, places of the documents, completion for shells, manual pages."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path

from tx8isa.tools.command_line import guarded, tell
from tx8isa.tools.version import VERSION

_INSTALLED = "share/doc/tx8/README.md"
"""Place of the documents that a wheel installs, relative to the root of the environment."""


def home() -> Path | None:
    """Return the folder with README.md, docs/ and examples/: the checkout, or the documents of the wheel."""
    checkout = Path(__file__).resolve().parent.parent
    if (checkout / "pyproject.toml").is_file() and (checkout / "docs").is_dir():
        return checkout
    try:
        installed = files("tx8") or []
    except PackageNotFoundError:
        return None
    found = [Path(str(file.locate())) for file in installed if file.as_posix().endswith(_INSTALLED)]
    return found[0].resolve().parent if found and found[0].exists() else None


_USAGE = """\
usage: python -m tx8                     the version, and where documents and examples are
       python -m tx8 completion SHELL    completion of the tools as a script: bash, zsh, fish, ...
       python -m tx8 man DIR             manual pages of the tools, tx8as.1 and others, into a folder"""


def main(arguments: Sequence[str] = ()) -> int:
    """Print the version and the folders, or execute a command; status 1 if that fails."""
    match list(arguments):
        case []:
            return _places()
        case ["completion", shell]:
            return guarded("tx8", lambda: _print_completion(shell))
        case ["man", folder]:
            return guarded("tx8", lambda: _write_pages(Path(folder)))
        case ["-h" | "--help"]:
            print(_USAGE)
            return 0
    return tell(_USAGE, 2)


def _print_completion(shell: str) -> int:
    from tx8.desktop.completion import completion

    print(completion(shell))
    return 0


def _write_pages(folder: Path) -> int:
    from tx8.desktop.pages import write_pages

    for path in write_pages(folder):
        print(path)
    return 0


def _places() -> int:
    """Print the version and the folders; status 1 when the documents are not there."""
    print(f"tx8 {VERSION}")
    place = home()
    if place is None:
        print(
            "tx8: the documents are not installed with this copy: see docs/ in the sources", file=sys.stderr
        )
        return 1
    for name in ("README.md", "docs", "examples"):
        print(f"{name:10} {place / name}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
