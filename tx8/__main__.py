"""``python -m tx8``: which version is installed, and where its documents and examples are."""

from __future__ import annotations

import sys
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path

from tx8isa.tools.version import VERSION

_INSTALLED = "share/doc/tx8/README.md"
"""Where a wheel puts the documents, relative to the root of the environment."""


def home() -> Path | None:
    """The folder with README.md, docs/ and examples/: the checkout, or what the wheel has installed."""
    checkout = Path(__file__).resolve().parent.parent
    if (checkout / "pyproject.toml").is_file() and (checkout / "docs").is_dir():
        return checkout
    try:
        installed = files("tx8") or []
    except PackageNotFoundError:
        return None
    found = [Path(str(file.locate())) for file in installed if file.as_posix().endswith(_INSTALLED)]
    return found[0].resolve().parent if found and found[0].exists() else None


def main() -> int:
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
    sys.exit(main())
