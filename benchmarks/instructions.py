"""A row for every instruction of CT, TDMA, RDMA, WDMA and NE: rate, share of a copy, ratio to NumPy.

    python benchmarks/instructions.py              all rows; writes docs/instruction_speed.md
    python benchmarks/instructions.py 'ct.add.*'   the rows that match; writes nothing

Everything runs on one thread with operands in the caches (``_operands.py``). Kernels are called as in the
emulator, but without issuing. "of copy" is the rate of bytes read and written, relative to a copy by the C
library of half as many bytes, which reads and writes as many. Kernel, copy and NumPy run in turn. All rows
are measured ``PASSES`` times, and medians are over all passes, which reduces the effect of other load. The
time for compiling kernels is not counted.
"""

from __future__ import annotations

import os

os.environ.update(OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1", MKL_NUM_THREADS="1")  # before NumPy starts

import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from statistics import median

import numpy as np

from _bench import Bench, Work, in_turn
from _operands import Case, all_cases
from _peers import Peer, peer
from _report import machine, promise
from tx8isa.records.meaning import Elementwise, Form, Relation
from tx8isa.table.pages import Page, page_of

PASSES = 3
PAGE = Path(__file__).resolve().parent.parent / "docs" / "instruction_speed.md"

SLOW = 0.05
"""A row below this share of a copy needs a reason."""
_PRODUCTS = "arithmetic is the limit, not memory: {} products for each byte"
REASONS = {
    "ne.conv.*": _PRODUCTS.format("53 to 211"),
    "ne.bwconv.*": _PRODUCTS.format("53 and 105"),
    "ne.gemm.*": _PRODUCTS.format("14 to 57"),
    "ne.dwconv.int8 *": "nine products for each element, as many a second as in FP16, of half the bytes",
    "ct.softplus.v.fp32": "an exponential and a logarithm in binary64 for each element",
}
"""Patterns of rows, and why these are below ``SLOW``. A reason for a faster row is reported as well."""

HEAD = """\
# Speed of every instruction

<!-- Written by benchmarks/instructions.py, which says how the figures are taken. -->

One row for each instruction and some of its formats, on one thread with operands in the caches.

- *G elements/s*: elements of the largest operand in thousand millions a second; products in the matrix
  engine, bits of bit vectors, bytes of gatherscatter.
- *Of copy*: bytes read and written, as a share of what a copy by the C library reads and writes in the same
  time, in the same run.
- *Times NumPy*: how many times as fast as NumPy on the same operands, where NumPy has a word for it; for the
  matrix product that is OpenBLAS on ready FP32 matrices.
- *Why*: the reason when it is below 5 % of a copy.

"""
COLUMNS = ("row", "G elements/s", "of copy", "times NumPy", "why")


@dataclass(frozen=True)
class Row:
    """The figures of one case."""

    case: Case
    rate: float
    """Elements per second."""
    share: float
    """Traffic as a share of a copy's."""
    numpy: float | None
    """Speed as a multiple of NumPy's."""

    @property
    def name(self) -> str:
        return self.case.name

    @property
    def reason(self) -> str:
        return next((text for pattern, text in REASONS.items() if fnmatchcase(self.name, pattern)), "")

    def cells(self) -> tuple[str, ...]:
        ratio = "" if self.numpy is None else f"{self.numpy:.2f}"
        share = f"{self.share:.1%}" if self.share < 2 * SLOW else f"{self.share:.0%}"
        return (f"`{self.name}`", f"{self.rate / 1e9:.3f}", share, ratio, self.reason)


Samples = dict[str, list[float]]
"""Seconds of the kernel, of the copy and of NumPy."""


def measure(bench: Bench, case: Case) -> Samples:
    """Run kernel, copy and NumPy in turn."""
    works = {"kernel": bench.kernel(case), "copy": bench.copy(case.traffic // 2)}
    other = peer(case, lambda operand, dtype: bench.memory(case, operand, dtype))
    if other is not None:
        works["numpy"] = repeated(other)
    with np.errstate(all="ignore"):
        return in_turn(works)


def row_of(case: Case, passes: list[Samples]) -> Row:
    """The figures of a case, from the medians of all passes."""
    seconds = {name: median(s for samples in passes for s in samples[name]) for name in passes[0]}
    kernel = seconds["kernel"]
    numpy = seconds["numpy"] / kernel if "numpy" in seconds else None
    return Row(case, case.elements / kernel, seconds["copy"] / kernel, numpy)


def repeated(call: Peer) -> Work:
    def work(times: int) -> None:
        for _ in range(times):
            call()

    return work


# --- the table ----------------------------------------------------------------------------


def unexplained(rows: Iterable[Row]) -> Iterator[str]:
    """Complaints about slow rows without a reason, and about reasons of rows that need none."""
    for row in rows:
        if row.share < SLOW and not row.reason:
            yield f"{row.name}: {row.share:.1%} of a copy, and no reason is given"
        if row.share >= SLOW and row.reason:
            yield f"{row.name}: {row.share:.1%} of a copy, so it needs no reason"


def page(rows: list[Row]) -> str:
    """The document: a table for each page of the manual."""
    pages: dict[Page, list[Row]] = {}
    for row in rows:
        described = page_of(row.case.instruction)
        assert described is not None, "the table of instructions was proved"
        pages.setdefault(described, []).append(row)
    lines = [f"{HEAD}Measured on: {machine()}."]
    for each, members in pages.items():
        lines += ["", f"## {each.title}", "", table_line(COLUMNS), table_line("---" for _ in COLUMNS)]
        lines += [table_line(row.cells()).rstrip() for row in members]
    complaints = list(unexplained(rows))
    if complaints:
        lines += ["", "## Reasons that do not fit these figures", "", *(f"- {text}" for text in complaints)]
    return "\n".join(lines) + "\n"


def table_line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


# --- goals --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Goal:
    """A figure that all rows of a group must reach; the page promises the lowest of them."""

    what: str
    rows: tuple[str, ...]
    at_least: float
    unit: str = "%"

    def has(self, row: Row) -> bool:
        return any(fnmatchcase(row.name, pattern) for pattern in self.rows)

    def figure(self, row: Row) -> float:
        if self.unit == "%":
            return row.share
        return row.rate / 1e9 if self.unit == "G elements/s" else row.numpy or 0.0

    def show(self, row: Row) -> str:
        return f"{self.figure(row):.0%}" if self.unit == "%" else f"{self.figure(row):.2f} {self.unit}"


GOALS = (
    Goal("`ct.add`, `ct.mul` fp32, the slower", ("ct.add.vv.fp32", "ct.mul.vv.fp32"), 0.85),
    Goal("`ct.add`, `ct.mul` fp16, the slower", ("ct.add.vv.fp16", "ct.mul.vv.fp16"), 0.60),
    Goal("`ct.exp.v.fp32`", ("ct.exp.v.fp32",), 1.0, "times NumPy"),
    Goal("moves of contiguous bytes, the slowest", ("* contiguous",), 0.90),
    Goal("moves of rows of 64 bytes, the slowest", ("* rows of 64 bytes",), 0.50),
)
FUNCTIONS = Goal("functions of one 16-bit operand, the slowest", (), 2.5, "G elements/s")
RELATIONS = Goal("relations to bits, the slowest", (), 0.50)


def is_function(row: Row) -> bool:
    """A function of one operand in a format of 16 bits."""
    meaning, fmt = row.case.instruction.meaning, row.case.format
    return isinstance(meaning, Elementwise) and meaning.form is Form.V and fmt is not None and fmt.bits == 16


def is_packed(row: Row) -> bool:
    meaning = row.case.instruction.meaning
    return isinstance(meaning, Relation) and meaning.packed


def goals(rows: list[Row]) -> Iterator[tuple[Goal, list[Row]]]:
    """Each goal with its rows."""
    for goal in GOALS:
        yield goal, [row for row in rows if goal.has(row)]
    yield FUNCTIONS, [row for row in rows if is_function(row)]
    yield RELATIONS, [row for row in rows if is_packed(row)]


def judge(rows: list[Row]) -> None:
    """Promise the lowest figure of each goal, and print every row that misses it."""
    for goal, members in goals(rows):
        if not members:
            continue
        lowest = min(members, key=goal.figure)
        against = f"of {len(members)} rows: `{lowest.name}`" if len(members) > 1 else ""
        against = "; ".join(text for text in (against, _peer_of(goal)) if text)
        promise(goal.what, goal.figure(lowest), goal.unit, at_least=goal.at_least, against=against)
        for row in sorted(members, key=goal.figure):
            if goal.figure(row) < goal.at_least:
                print(f"missed: {row.name}: {goal.show(row)} ({goal.what}: {goal.at_least:g})")


def _peer_of(goal: Goal) -> str:
    return {"%": "traffic of a copy by the C library", "times NumPy": "NumPy"}.get(goal.unit, "")


def main(patterns: list[str]) -> int:
    chosen = [c for c in all_cases() if not patterns or any(fnmatchcase(c.name, p) for p in patterns)]
    if not chosen:
        print(f"no row matches {' '.join(patterns)}", file=sys.stderr)
        return 2
    bench, start = Bench(), time.perf_counter()
    passes = [[measure(bench, case) for case in chosen] for _ in range(PASSES)]
    rows = [row_of(case, list(samples)) for case, *samples in zip(chosen, *passes, strict=True)]
    print(f"{'row':44} {'G elem/s':>9} {'of copy':>8} {'x NumPy':>8}")
    for row in rows:
        ratio = "" if row.numpy is None else f"{row.numpy:8.2f}"
        print(f"{row.name:44} {row.rate / 1e9:9.3f} {row.share:8.1%} {ratio}")
    seconds = time.perf_counter() - start
    print(f"{len(rows)} rows in {seconds:.0f} s, of them {bench.compiling:.0f} s compiling kernels\n")
    for text in unexplained(rows):
        print(f"reason: {text}")
    judge(rows)
    if not patterns:
        PAGE.write_text(page(rows), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
