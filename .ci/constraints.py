"""Write constraints.txt: the versions of all libraries that tx8 and its tests need, as installed here.

    python .ci/constraints.py            write it
    python .ci/constraints.py --print    print it

Run it in an environment in which the tests pass. What only some readers of models need is left out.
"""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Iterable, Iterator
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent
FILE = ROOT / "constraints.txt"
LEFT_OUT = ("torch", "jax", "tensorflow", "triton", "zoo")
"""The extras whose libraries are not listed."""
HEAD = """\
# Versions with which the tests passed: pip install -c constraints.txt .
# Written by .ci/constraints.py from an environment; pyproject.toml has the ranges that are allowed.
"""


def declared() -> list[Requirement]:
    """The requirements in pyproject.toml, with the extras for tests, examples and the site."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    lists = [project["dependencies"], *(extras[name] for name in sorted(extras) if name not in LEFT_OUT)]
    return [Requirement(text) for texts in lists for text in texts]


def applies(requirement: Requirement, extras: Iterable[str]) -> bool:
    """Whether a requirement holds on this system and Python for a library with these extras."""
    marker = requirement.marker
    return marker is None or any(marker.evaluate({"extra": extra}) for extra in ("", *extras))


def needed(requirement: Requirement) -> Iterator[Requirement]:
    """The requirements of an installed library; an error names a library that is not installed."""
    for text in requires(requirement.name) or []:
        further = Requirement(text)
        if applies(further, requirement.extras):
            yield further


def reached() -> dict[str, str]:
    """Version by name of every library that is needed, directly or by another one."""
    seen = set()
    waiting = declared()
    while waiting:
        requirement = waiting.pop()
        library = canonicalize_name(requirement.name), frozenset(requirement.extras)
        if library not in seen:
            seen.add(library)
            waiting += needed(requirement)
    return {name: version(name) for name in sorted({name for name, _ in seen})}


def main(arguments: list[str]) -> int:
    try:
        lines = [f"{name}=={number}\n" for name, number in reached().items()]
    except PackageNotFoundError as error:
        print(
            f"constraints.py: {error.name} is not installed: pip install '.[test,examples,site]'",
            file=sys.stderr,
        )
        return 1
    text = HEAD + "".join(lines)
    if arguments == ["--print"]:
        print(text, end="")
    else:
        FILE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
