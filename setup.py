"""What pyproject.toml cannot say in a line: which files that are no code are installed, and where.

Documents, examples and files for editors go to ``share/doc/tx8`` of the environment; ``python -m tx8``
prints where that is.
"""

from collections import defaultdict
from pathlib import Path

from setuptools import setup

FOLDERS = ("docs", "examples", "editors")
MADE_BY_RUNS = ("*.pyc", "prog.s", "prog.bin", "prog.const")


def documents() -> list[tuple[str, list[str]]]:
    """Each folder of the environment and the files that go there."""
    files = defaultdict(list)
    found = [*Path().glob("*.md"), *(file for name in FOLDERS for file in Path(name).rglob("*"))]
    for path in sorted(found):
        if path.is_file() and not any(path.match(pattern) for pattern in MADE_BY_RUNS):
            files[(Path("share/doc/tx8") / path.parent).as_posix()].append(path.as_posix())
    return list(files.items())


setup(data_files=documents())
