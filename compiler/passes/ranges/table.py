"""The shape program: it computes all sizes that the code loads, once at the start of a run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from compiler.codegen.emitter import Emitter
from compiler.codegen.program import SHAPE_BLOCK, SHAPE_WORD
from compiler.codegen.registers import SIZE_PREFIX, STACK, TILE
from compiler.evaluation.sizes import Size
from compiler.graph import GraphError
from tx8isa.numbers.division import round_up

BASE = "tp"
"""Holds the address of the table of sizes, in the stack of the tile, throughout the program."""
_REACH = 2048
"""Bytes that a load reaches before and after an address."""
_REGISTERS = tuple(f"t{i}" for i in range(7)) + tuple(f"a{i}" for i in range(8))
_DEEP = 6
"""Steps of a formula from which on a part of it is a size of its own."""
_NAMES = {"add": "add", "sub": "sub", "mul": "mul", "div": "divu", "rem": "remu"}


class SizeTable:
    """The places of the sizes that the code loads; GraphError when there are too many."""

    def __init__(self, loads: Mapping[str, Size], more: Sequence[Size]) -> None:
        self.sizes: dict[str, Size] = {}
        uses = Counter[str]()
        for size in (*loads.values(), *more):
            _count(size, uses)
        wanted = {*loads, *map(str, more)}
        for size in (*loads.values(), *more):
            for part in _parts(size):
                if (
                    str(part) in wanted
                    or part.op == "symbol"
                    or uses[str(part)] > 1
                    or _depth(part) % _DEEP == 0
                ):
                    self.sizes.setdefault(str(part), part)
        self.bytes = round_up(len(self.sizes) * SHAPE_WORD, 16)
        if self.bytes > 2 * _REACH:
            most = 2 * _REACH // SHAPE_WORD
            raise GraphError([f"the program needs {len(self.sizes)} sizes; at most {most} are possible"])
        self.bias = min(self.bytes, _REACH)
        self.places = {text: f"{at * SHAPE_WORD - self.bias}({BASE})" for at, text in enumerate(self.sizes)}

    def resolved(self, lines: Sequence[str]) -> list[str]:
        """Lines of code with the places of the sizes that they load."""
        return [self._resolved(line) if SIZE_PREFIX in line else line for line in lines]

    def _resolved(self, line: str) -> str:
        head, _, text = line.partition(SIZE_PREFIX)
        return f"{head}{self.places[text]}  # {text}"

    def code(self, names: Sequence[str], words: Sequence[Size]) -> list[str]:
        """The shape program: dimensions from the shape block, all sizes, then ``words`` into the block."""
        out = Emitter()
        out.comment("sizes of the run")
        out.instruction("addi", STACK, STACK, str(-self.bytes)) if self.bytes <= _REACH else self._far(out)
        out.instruction("addi", BASE, STACK, str(self.bias - SHAPE_WORD))
        out.instruction("addi", BASE, BASE, str(SHAPE_WORD))
        out.instruction("la", "a7", f"%core({SHAPE_BLOCK})")
        for text, size in self.sizes.items():
            if size.op == "symbol":
                out.instruction("ld", "t0", f"{names.index(size.name) * SHAPE_WORD}(a7)")
            else:
                self._compute(out, size, 0, whole=True)
            out.instruction("sd", "t0", self.places[text])
        if words:
            out.instruction("bnez", TILE, "1f")
            out.instruction("la", "a7", f"%core({SHAPE_BLOCK})")
            for at, word in enumerate(words, len(names)):
                out.instruction("ld", "t0", self.places[str(word)])
                out.instruction("sd", "t0", f"{at * SHAPE_WORD}(a7)")
            out.label("1")
        return out.lines

    def _far(self, out: Emitter) -> None:
        out.instruction("li", "t0", str(-self.bytes))
        out.instruction("add", STACK, STACK, "t0")

    def _compute(self, out: Emitter, value: int | Size, at: int, whole: bool = False) -> None:
        """A value into register number ``at``, by those after it."""
        target = _REGISTERS[at]
        if not isinstance(value, Size):
            out.instruction("li", target, str(value))
            return
        if not whole and str(value) in self.places:
            out.instruction("ld", target, self.places[str(value)])
            return
        self._compute(out, value.left, at)
        if value.op == "neg":
            out.instruction("neg", target, target)
            return
        self._compute(out, value.right, at + 1)
        _apply(out, value.op, target, _REGISTERS[at + 1])


def _apply(out: Emitter, op: str, left: str, right: str) -> None:
    """left = left op right."""
    if op in _NAMES:
        out.instruction(_NAMES[op], left, left, right)
    elif op == "ceil":
        out.instruction("add", left, left, right)
        out.instruction("addi", left, left, "-1")
        out.instruction("divu", left, left, right)
    elif op in ("min", "max"):
        out.instruction("ble" if op == "min" else "bge", left, right, "1f")
        out.instruction("mv", left, right)
        out.label("1")
    elif op in ("eq", "ne"):
        out.instruction("sub", left, left, right)
        out.instruction("seqz" if op == "eq" else "snez", left, left)
    else:
        first, second = (left, right) if op in ("lt", "ge") else (right, left)
        out.instruction("slt", left, first, second)
        if op in ("ge", "le"):
            out.instruction("xori", left, left, "1")


def _parts(size: Size) -> Iterator[Size]:
    """A size and what it is computed from, the latter first."""
    for operand in (size.left, size.right):
        if isinstance(operand, Size):
            yield from _parts(operand)
    yield size


def _count(size: Size, uses: Counter[str]) -> None:
    """Count how often the parts of sizes are needed, each with what is computed from it once."""
    uses[str(size)] += 1
    if uses[str(size)] == 1:
        for operand in (size.left, size.right):
            if isinstance(operand, Size):
                _count(operand, uses)


def _depth(size: Size) -> int:
    return 1 + max((_depth(o) for o in (size.left, size.right) if isinstance(o, Size)), default=0)
