"""``python -m tx8.puzzles``: twenty kernels to write, from a first load to attention (docs/puzzles.md)."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tx8.__main__ import home
from tx8isa.errors import Tx8Error
from tx8isa.tools.command_line import guarded, print_out, tell
from tx8isa.tools.files import write_whole

_USAGE = """\
usage: python -m tx8.puzzles                 list the puzzles
       python -m tx8.puzzles NUMBER          show one; copy its template and its picture into this folder
       python -m tx8.puzzles NUMBER FILE     judge a solution; exit status 3 if it does not pass"""


@dataclass(frozen=True)
class Puzzle:
    """A puzzle: the folder with its text, template, specification and solution."""

    folder: Path

    @property
    def number(self) -> int:
        """Its place in the order of difficulty."""
        return int(self.folder.name.partition("_")[0])

    @property
    def title(self) -> str:
        """The title without the number."""
        return self.text.partition("\n")[0].partition(". ")[2]

    @property
    def stages(self) -> tuple[str, ...]:
        """The path of the data, for the picture."""
        line = next(line for line in self.text.split("\n") if line.startswith("    "))
        return tuple(stage.strip() for stage in line.split(" | "))

    @property
    def text(self) -> str:
        """The task, in Markdown."""
        return (self.folder / "text.md").read_text(encoding="utf-8")

    @property
    def template(self) -> Path:
        """The file with which to begin."""
        return self._file("template")

    @property
    def solution(self) -> Path:
        """The reference solution."""
        return self._file("solution")

    @property
    def spec(self) -> Path:
        """The specification of a solution, with its goal of cycles."""
        return self.folder / "spec.py"

    @property
    def copy(self) -> str:
        """The name of the template in the reader's folder."""
        return f"puzzle_{self.number:02}{self.template.suffix}"

    def _file(self, name: str) -> Path:
        return next(path for path in self.folder.iterdir() if path.stem == name)


def puzzles() -> list[Puzzle]:
    """Return all puzzles, the easiest first; Tx8Error when the examples are not installed."""
    place = home()
    if place is None:
        raise Tx8Error("the examples are not installed with this copy: see examples/puzzles in the sources")
    return [Puzzle(folder) for folder in sorted((place / "examples/puzzles").iterdir()) if folder.is_dir()]


def puzzle(number: str) -> Puzzle:
    """Return a puzzle by its number; Tx8Error for a number that none has."""
    known = puzzles()
    found = [each for each in known if number.isdecimal() and each.number == int(number)]
    if not found:
        raise Tx8Error(f"no puzzle '{number}': expected a number from 1 to {len(known)}")
    return found[0]


def main(arguments: Sequence[str]) -> int:
    """List the puzzles, show one, or judge a solution; return the exit status."""
    match list(arguments):
        case []:
            return guarded("tx8.puzzles", _list)
        case ["-h" | "--help"]:
            print(_USAGE)
            return 0
        case [number]:
            return guarded("tx8.puzzles", lambda: _show(puzzle(number), Path()))
        case [number, file]:
            return guarded("tx8.puzzles", lambda: _judge(puzzle(number), file))
    return tell(_USAGE, 2)


def _list() -> int:
    for each in puzzles():
        language = "C" if each.template.suffix == ".c" else "assembly"
        print_out(f"{each.number:>2}  {each.title:<28}{language}")
    return 0


def _show(found: Puzzle, folder: Path) -> int:
    """Print the task; copy the template unless the file exists, because it may contain the reader's work."""
    from tx8.views.flow import flow_picture

    print_out(found.text)
    target = folder / found.copy
    said = "is there already" if target.exists() else "is the template"
    if not target.exists():
        write_whole(target, found.template.read_bytes())
    picture = target.with_suffix(".svg")
    write_whole(picture, flow_picture(found.stages).encode())
    print_out(
        f"\n{target} {said}, {picture} a picture; judge it: python -m tx8.puzzles {found.number} {target}"
    )
    return 0


def _judge(found: Puzzle, file: str) -> int:
    """Print the judge's answer with the next hint."""
    from tx8.judge.judge import judge

    answer = judge(file, found.spec)
    print_out(answer.text)
    if answer.passed:
        print_out(f"solved: puzzle {found.number}")
    return 0 if answer.passed else 3


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
