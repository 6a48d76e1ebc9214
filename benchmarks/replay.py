"""Compile and run some fifty programs with this tree and with another revision, and print the differences.

    python benchmarks/replay.py REV [NAME ...]     the programs that differ, with what differs
    python benchmarks/replay.py REV --same         the same; exit status 1 if a program differs
    python benchmarks/replay.py REV --page         cycles of both trees' programs as a table of
                                                   docs/benchmarks.md
    python benchmarks/replay.py --list             the names of the programs

REV is a revision, which gets an environment of its own in build/replay, or the folder of a checkout with one
in ``.venv``. Each tree compiles, assembles and simulates with its own tools. The results of a revision are
kept there, so that the second comparison with it takes half the time. Hazards are counted only for programs
that differ, and only in this tree. With ``--page`` this tree simulates the programs of both, so one model of
time judges them.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from elftools.elf.constants import SH_FLAGS
from elftools.elf.elffile import ELFFile

from _programs import Program, programs
from schedule import ROOT, sources_of

KEPT = ROOT / "build" / "replay"
PAGE = ROOT / "docs" / "benchmarks.md"
BEGIN, END = "<!-- replay -->", "<!-- end of replay -->"
"""The table in the page is between these lines."""
HEAD = "| program | cycles, {} | now | times | least | most | by the C runtime |"
_SECONDS = 900
"""The longest that a tool may take; then its exit status is 124."""


@dataclass(frozen=True)
class Made:
    """Digests, sizes and counts of a program as a tree compiles and runs it, or the line that refuses it."""

    image: str = ""
    """Digest of everything that is loaded."""
    code: int = 0
    """Bytes of instructions."""
    cycles: float = 0
    least: float = 0
    most: float = 0
    moved: int = 0
    """Bytes that DDR moves."""
    commands: int = 0
    """Instructions of the engines."""
    c_runtime: float = 0
    """Cycles if the vendor's C runtime submits the commands; 0 for several chips."""
    results: str = ""
    """Digest of the outputs for random inputs."""
    refused: str = ""


@dataclass(frozen=True)
class Tree:
    """A checkout, the folder of its tools, and the file that keeps its results if it never changes.

    ``emulator``: the folder of the emulator that runs its programs, if it is not its own.
    """

    root: Path
    tools: Path
    kept: Path | None = None
    emulator: Path | None = None

    def run(self, tool: str, *words: object) -> subprocess.CompletedProcess[str]:
        folder = self.emulator if self.emulator is not None and tool == "tx8emu" else self.tools
        command = ["timeout", str(_SECONDS), str(folder / tool), *map(str, words)]
        return subprocess.run(command, cwd=self.root, capture_output=True, text=True, check=False)

    def made(self, program: Program, model: Path) -> Made:
        """Compile, run, and look at both."""
        with tempfile.TemporaryDirectory() as made:
            image, results = Path(made) / "prog.bin", Path(made) / "results"
            done = self._compile(program, model, image)
            if done.returncode:
                return Made(refused=_said(done))
            words = (image, "--random", "0", *program.run, "--stats=json", "-q")
            done = self.run("tx8emu", *words, "--output-dir", results)
            if done.returncode:
                return Made(*_loaded(image), refused=_said(done))
            stats = json.loads(done.stdout)
            if "chips" in stats:  # statistics of several chips have no range
                ends = {end: self.run("tx8emu", *words, "--timing", end).stdout for end in ("least", "most")}
                stats["cycles_range"] = {end: json.loads(text)["cycles"] for end, text in ends.items()}
            return _measured(image, stats, results)

    def _compile(self, program: Program, model: Path, image: Path) -> subprocess.CompletedProcess[str]:
        return self.run("tx8cc", model, *program.options, "--no-cache", "-q", "-o", image.parent)

    def hazards(self, program: Program, model: Path) -> str:
        """The number of hazards of a run, as a word for the table."""
        with tempfile.TemporaryDirectory() as made:
            image = Path(made) / "prog.bin"
            self._compile(program, model, image)
            done = self.run("tx8emu", image, "--random", "0", *program.run, "--strict", "--json", "-q")
        found = json.loads(done.stdout) if done.stdout.startswith("{") else {}
        return str(len(found["hazards"])) if "hazards" in found else _said(done)


def _said(done: subprocess.CompletedProcess[str]) -> str:
    """The first line of a tool's output without the folder's own name, or how the tool ended."""
    line = next(iter(done.stderr.splitlines()), f"exit status {done.returncode}")
    return re.sub(rf"{re.escape(tempfile.gettempdir())}/tmp\w+/", "", line)


def _loaded(image: Path) -> tuple[str, int]:
    """The digest of an image's loaded sections, and the bytes of its instructions."""
    digest, code = hashlib.sha256(), 0
    with image.open("rb") as file:
        for section in ELFFile(file).iter_sections():
            if section["sh_flags"] & SH_FLAGS.SHF_ALLOC:
                digest.update(f"{section.name} {section['sh_addr']}\n".encode())
                digest.update(b"" if section["sh_type"] == "SHT_NOBITS" else section.data())
            if section["sh_flags"] & SH_FLAGS.SHF_EXECINSTR:
                code += section["sh_size"]
    return digest.hexdigest(), code


def _measured(image: Path, stats: Mapping[str, Any], results: Path) -> Made:
    outputs = hashlib.sha256()
    for path in sorted(results.rglob("*.npy")):
        outputs.update(f"{path.relative_to(results)}\n".encode() + path.read_bytes())
    ends, chips = stats["cycles_range"], stats.get("chips", [stats])
    paths = [path for chip in chips for path in chip["paths"] if path["path"] == "DDR, all engines"]
    return Made(
        *_loaded(image),
        stats["cycles"],
        ends["least"],
        ends["most"],
        sum(path["bytes"] for path in paths),
        sum(chip["engine_instructions"] for chip in chips),
        ends.get("c_runtime", 0),
        outputs.hexdigest(),
    )


def this_tree() -> Tree:
    return Tree(ROOT, Path(sys.executable).parent)


def tree_of(revision: str) -> Tree:
    """An existing checkout, or that of a revision, made if necessary; SystemExit if there is none."""
    folder = Path(revision)
    if (folder / ".venv").is_dir():
        return Tree(folder.resolve(), folder.resolve() / ".venv" / "bin")
    found = subprocess.run(
        ["git", "rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if found.returncode:
        sys.exit(
            f"replay.py: {revision!r} is no revision of {ROOT} and no checkout with an environment in .venv"
        )
    commit = found.stdout.strip()
    root = KEPT / commit
    if not (root / ".venv" / "test.stamp").exists():
        print(f"an environment for {commit[:12]} is made in {root}", flush=True)
        sources_of(commit, root)
        if subprocess.run(["make", "-s", ".venv/test.stamp"], cwd=root, check=False).returncode:
            sys.exit(f"replay.py: no environment for {revision!r}: what make said stands above")
    return Tree(root, root / ".venv" / "bin", KEPT / f"{commit}.json")


def _key(program: Program) -> str:
    return hashlib.sha256(repr(program).encode()).hexdigest()


def model_of(program: Program) -> Path:
    """The model as a file, which is written once and always has the same name."""
    folder = KEPT / "models" / _key(program)[:16]
    folder.mkdir(parents=True, exist_ok=True)
    return program.write(folder)


def made_by(tree: Tree, chosen: Sequence[Program]) -> Iterable[Made]:
    """Compile and run programs with a tree, in order, except those whose figures it keeps."""
    kept = json.loads(tree.kept.read_text("utf-8")) if tree.kept is not None and tree.kept.exists() else {}
    for program in chosen:
        key = _key(program)
        if key not in kept:
            kept[key] = asdict(tree.made(program, model_of(program)))
            if tree.kept is not None:
                tree.kept.write_text(json.dumps(kept), encoding="utf-8")
        yield Made(**kept[key])


def difference(before: Made, after: Made) -> list[str]:
    """The names of the figures that differ; an empty list if all are the same."""
    if before.refused or after.refused:
        return (
            [] if before == after else [f"before: {before.refused or 'made'}; now: {after.refused or 'made'}"]
        )
    found = []
    if before.image != after.image:
        found.append(f"code {before.code:,} -> {after.code:,} B")
    for what in ("cycles", "least", "most", "moved", "commands"):
        old, new = getattr(before, what), getattr(after, what)
        if old != new:
            found.append(f"{what} {old:,.0f} -> {new:,.0f} ({new / old if old else float('inf'):.3f})")
    if before.results != after.results:
        found.append("other results")
    return found


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser("replay.py", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("revision", nargs="?", help="a revision, or the folder of a checkout")
    parser.add_argument("names", nargs="*", metavar="NAME", help="programs (default: all)")
    parser.add_argument("--same", action="store_true", help="exit status 1 if a program differs")
    parser.add_argument("--page", action="store_true", help="write a table of cycles into docs/benchmarks.md")
    parser.add_argument("--list", action="store_true", help="print the names of the programs")
    options = parser.parse_args(arguments)
    known = {program.name: program for program in programs()}
    if options.list:
        print("\n".join(known))
        return 0
    if options.revision is None:
        parser.error("name a revision or a checkout to compare with")
    if unknown := [name for name in options.names if name not in known]:
        parser.error(f"no program is named {unknown[0]!r}; --list prints the names")
    chosen = [known[name] for name in options.names] or list(known.values())
    other = tree_of(options.revision)
    if options.page:
        write_page(options.revision, other, chosen)
        return 0
    differing = _compared(other, chosen)
    return int(options.same and differing > 0)


def _compared(other: Tree, chosen: Sequence[Program]) -> int:
    """Print a line for each program; returns how many differ."""
    this, differing = this_tree(), 0
    for program, before, after in zip(chosen, made_by(other, chosen), made_by(this, chosen), strict=True):
        found = difference(before, after)
        if before.image != after.image and not after.refused:
            found.append(f"hazards {this.hazards(program, model_of(program))}")
        differing += bool(found)
        refused = f"refused: {after.refused}" if after.refused else "the same"
        print(f"{program.name:<22} {'; '.join(found) or refused}", flush=True)
    print(f"{len(chosen)} programs, {differing} differ")
    return differing


def write_page(revision: str, other: Tree, chosen: Sequence[Program]) -> None:
    """Write the table of cycles of both trees' programs, all simulated by this tree."""
    this = this_tree()
    other = replace(other, kept=None, emulator=this.tools)
    rows = [HEAD.format(revision), "|" + "---|" * (HEAD.count("|") - 1)]
    for program, before, after in zip(chosen, made_by(other, chosen), made_by(this, chosen), strict=True):
        print(row := table_row(program.name, before, after), flush=True)
        rows.append(row)
    text = PAGE.read_text(encoding="utf-8")
    begin, end = text.index(BEGIN) + len(BEGIN), text.index(END)
    table = "\n".join(rows)
    PAGE.write_text(f"{text[:begin]}\n{table}\n{text[end:]}", encoding="utf-8")


def table_row(name: str, before: Made, after: Made) -> str:
    """A program's cycles in both trees and their quotients; a dash where a tree refuses it, or has no such
    figure."""
    pairs = [
        (getattr(before, what), getattr(after, what)) for what in ("cycles", "least", "most", "c_runtime")
    ]
    cycles = [f"{number:,.0f}" if number else "-" for number in pairs[0]]
    times = [f"{new / old:.2f}" if old and new else "-" for old, new in pairs]
    return f"| {' | '.join([name, *cycles, *times])} |"


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
