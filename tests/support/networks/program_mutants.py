"""Programs with one mistake each: an omitted instruction, or an operand that is moved, exchanged or too small
by one."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import asm
from asm.diagnostics import AsmError
from compiler.driver import Program
from compiler.graph import GraphError

ENGINE = re.compile(r"^\s+(rdma|wdma|ct|ne|td|dte|ncc)\b\S*")
"""The lines with engine instructions."""
_ADDRESS = re.compile(r"\b(dst|src|src0|src1|a|b|w|out|psum)=([^,]+)")
_COUNT = re.compile(r"\b(n|iter0|iter1|src_iter0|m|k)=(\d+)\b")


@dataclass(frozen=True)
class Mutant:
    """A change of one line of a program's text."""

    kind: str
    line: int
    """From 1."""
    text: str
    """The replacement of the line; empty to remove it."""

    def of(self, program: Program) -> Program:
        """The program with the mistake; GraphError when it does not assemble."""
        found = program.text.splitlines()
        found[self.line - 1] = self.text
        text = "".join(f"{line}\n" for line in found)
        try:
            image = asm.assemble(
                text, "prog.s", machine=program.machine, given={"prog.const": program.constants}
            )
        except AsmError as error:
            raise GraphError([str(error)]) from None
        return replace(program, text=text, image=image, again=partial(self._of_twin, program))

    def _of_twin(self, program: Program, **options: Any) -> Program:
        """The twin of the program, with the mistake."""
        assert program.again is not None
        return self.of(program.again(**options))


def mutants(program: Program) -> Iterator[Mutant]:
    """All mistakes of single engine instructions, in the order of the lines."""
    for number, line in enumerate(program.text.splitlines(), 1):
        match = ENGINE.match(line)
        if match is None:
            continue
        mnemonic = match[0].strip()
        yield Mutant(_WAITS.get(mnemonic, "left out"), number, "")
        for address in _ADDRESS.finditer(line):
            moved = f"{line[: address.end()]}+256{line[address.end() :]}"
            yield Mutant("address moved by a line", number, moved)
        for count in _COUNT.finditer(line):
            if int(count[2]) > 1:
                less = f"{line[: count.start(2)]}{int(count[2]) - 1}{line[count.end(2) :]}"
                yield Mutant("count less one", number, less)
        exchanged = _exchanged(line)
        if exchanged is not None:
            yield Mutant("operands exchanged", number, exchanged)


_BUFFER = re.compile(r"^\s+\.equ \S+, (0x[0-9a-f]+)  # \d+ bytes")
"""The place of a buffer in the scratchpad."""
_STORED = re.compile(r"^\s+wdma\S* .*\bn=(\d+)\b")


def out_of_order(program: Program) -> Iterator[Mutant]:
    """Mistakes that concern the order of accesses: waits and barriers left out, buffers moved by a line, and
    stores of twice as many elements."""
    for number, line in enumerate(program.text.splitlines(), 1):
        engine, buffer, stored = ENGINE.match(line), _BUFFER.match(line), _STORED.match(line)
        if engine is not None and engine[0].strip() in _WAITS:
            yield Mutant(_WAITS[engine[0].strip()], number, "")
        for step in (-256, 256) if buffer is not None and int(buffer[1], 0) >= 256 else ():
            moved = f"{int(buffer[1], 0) + step:#x}"  # type: ignore[index]
            yield Mutant("buffer moved by a line", number, line.replace(buffer[1], moved))  # type: ignore[index]
        if stored is not None:
            more = f"{line[: stored.start(1)]}{2 * int(stored[1])}{line[stored.end(1) :]}"
            yield Mutant("twice as much stored", number, more)


_WAITS = {"ncc.wait": "wait left out", "ncc.barrier": "barrier left out", "dte.wait": "wait left out"}


def _exchanged(line: str) -> str | None:
    """A line with its two sources exchanged; None without two different ones."""
    first, second = re.search(r"\bsrc0=([^,]+)", line), re.search(r"\bsrc1=(p[^,]+)", line)
    if first is None or second is None or first[1] == second[1]:
        return None
    swapped = line.replace(first[0], "\0").replace(second[0], f"src1={first[1]}")
    return swapped.replace("\0", f"src0={second[1]}")


def drawn(program: Program, count: int, seed: int) -> list[Mutant]:
    """Some mutants, as many of each kind as there are, drawn at random."""
    rng, kinds = random.Random(seed), dict[str, list[Mutant]]()
    for each in mutants(program):
        kinds.setdefault(each.kind, []).append(each)
    for own in kinds.values():
        rng.shuffle(own)
    found: list[Mutant] = []
    while len(found) < count and any(kinds.values()):
        found += [own.pop() for own in kinds.values() if own]
    return found[:count]
