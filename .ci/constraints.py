"""Write constraints.txt: the versions of all libraries that tx8 and its tests need, as installed here.

    python .ci/constraints.py             write it
    python .ci/constraints.py --print     print it
    python .ci/constraints.py --oldest    write oldest.txt: the oldest versions that pyproject.toml allows

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
FILE, OLDEST = ROOT / "constraints.txt", ROOT / "oldest.txt"
LEFT_OUT = ("torch", "jax", "tensorflow", "triton", "smt", "zoo")
"""The extras whose libraries are not listed."""
OF_USERS = ("editor", "mpi", "report", "shell")
"""The extras of users whose oldest versions are listed; the tools of the tests are as new as they are."""
HEAD = """\
# Versions with which the tests passed: pip install -c constraints.txt .
# Written by .ci/constraints.py from an environment; pyproject.toml has the ranges that are allowed.
"""
OLDEST_HEAD = """\
# The oldest versions that pyproject.toml allows: make test CONSTRAINTS=oldest.txt
# Written by .ci/constraints.py --oldest.
"""


def declared(extras: Iterable[str] | None = None) -> list[Requirement]:
    """The requirements in pyproject.toml with some extras, by default all but ``LEFT_OUT``."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    known = project["optional-dependencies"]
    chosen = sorted(set(known) - set(LEFT_OUT)) if extras is None else extras
    lists = [project["dependencies"], *(known[name] for name in chosen)]
    return [Requirement(text) for texts in lists for text in texts]


def oldest() -> dict[str, str]:
    """The lowest version by name that the libraries of tx8 and of its users' extras may have."""
    return {
        canonicalize_name(requirement.name): bound.version
        for requirement in sorted(declared(OF_USERS), key=lambda each: canonicalize_name(each.name))
        for bound in requirement.specifier
        if bound.operator in (">=", "==")
    }


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


def listing(versions: dict[str, str]) -> str:
    """The lines of a file of constraints."""
    return "".join(f"{name}=={number}\n" for name, number in versions.items())


def main(arguments: list[str]) -> int:
    if arguments == ["--oldest"]:
        OLDEST.write_text(OLDEST_HEAD + listing(oldest()), encoding="utf-8")
        return 0
    try:
        text = HEAD + listing(reached())
    except PackageNotFoundError as error:
        print(
            f"constraints.py: {error.name} is not installed: pip install '.[test,examples,site]'",
            file=sys.stderr,
        )
        return 1
    if arguments == ["--print"]:
        print(text, end="")
    else:
        FILE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
