"""Judges mutants of the programs of ten networks, and prints a table of what finds them.

    python tests/support/networks/mutant_table.py                100 mutants of each network
    python tests/support/networks/mutant_table.py rows cnn       of some networks
    python tests/support/networks/mutant_table.py --count 20     20 mutants of each
    python tests/support/networks/mutant_table.py --kept FOLDER  with results that are there, or put there

With ``--page docs/proving.md`` the table goes there. Mutants that only tolerances find, that round in another
way or are left open are printed, too.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from compiler.tools.verification.prove import prove
from documents import with_region
from mutant_ends import End, Judge
from mutant_nets import NETWORKS
from program_mutants import drawn, with_kept_twin

_SEED = 5


@dataclass(frozen=True)
class Judged:
    """A mutant and its judgement."""

    kind: str
    line: str
    """The line of the program, and what became of it."""
    end: End
    by_tolerances: bool
    """A run finds it by its tolerances."""


def judged(name: str, count: int) -> Iterator[Judged]:
    """Mutants of the program of a network, which must be proved itself."""
    program = with_kept_twin(NETWORKS[name]())
    if not (proof := prove(program)).holds:
        raise SystemExit(f"{name}: {proof}")
    judge = Judge(program)
    for mutant in drawn(program, count, _SEED):
        was = program.text.splitlines()[mutant.line - 1]
        line = f"{mutant.line}: {_short(was)} -> {_short(mutant.change(was)) or 'nothing'}"
        found = Judged(mutant.kind, line, judge.end(mutant), judge.found_by_tolerances(mutant))
        if found.end in (End.OPEN, End.ORDER, End.ROUNDING, End.RUN):
            print(f"{name}: {found.end}: {found.kind}: line {found.line}", flush=True)
        yield found


def _short(line: str) -> str:
    """A line without its columns."""
    return " ".join(line.split())


def kept(name: str, count: int, folder: Path | None) -> list[Judged]:
    """The mutants of a network, from a folder if it has them."""
    path = None if folder is None else folder / f"{name}.json"
    if path is not None and path.exists():
        found = json.loads(path.read_text(encoding="utf-8"))
        return [Judged(**{**each, "end": End(each["end"])}) for each in found]
    made = list(judged(name, count))
    if path is not None:
        path.write_text(json.dumps([asdict(each) for each in made], indent=1), encoding="utf-8")
    return made


def table(rows: Sequence[Judged]) -> str:
    """A row for each kind of mistake, and one for all."""
    ends = [end for end in End if any(each.end is end for each in rows)]
    columns = ["mistake", "made", *ends, "found by tolerances"]
    lines = [columns, ["---"] * len(columns)]
    kinds = Counter(each.kind for each in rows)
    for kind, _ in kinds.most_common():
        lines.append([kind, *_counts([each for each in rows if each.kind == kind], ends)])
    lines.append(["together", *_counts(rows, ends)])
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _counts(rows: Sequence[Judged], ends: Iterable[End]) -> list[str]:
    """How many there are, what became of them, and how many the tolerances find."""
    found = Counter(each.end for each in rows)
    tolerances = sum(each.by_tolerances for each in rows)
    return [f"{count:,}" for count in (len(rows), *(found[end] for end in ends), tolerances)]


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser("mutant_table.py", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="network", help=f"{', '.join(NETWORKS)}; all of them")
    parser.add_argument("--count", type=int, default=100, help="mutants of each network (default: 100)")
    parser.add_argument("--kept", type=Path, metavar="FOLDER", help="the folder of the results")
    parser.add_argument("--page", type=Path, help="a page with a marked region for the table")
    options = parser.parse_args(arguments)
    if unknown := [name for name in options.names if name not in NETWORKS]:
        parser.error(f"there is no network {unknown[0]}")
    rows = [each for name in options.names or NETWORKS for each in kept(name, options.count, options.kept)]
    print(made := table(rows))
    if options.page:
        text = options.page.read_text(encoding="utf-8")
        options.page.write_text(with_region(text, "mutants", lambda _: made), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
