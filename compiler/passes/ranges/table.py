"""The shape program: it computes all sizes that the code loads, once at the start of a run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from compiler.codegen.emitter import Emitter
from compiler.codegen.program import SHAPE_BLOCK, SHAPE_WORD
from compiler.codegen.registers import POOL, SIZE_PREFIX, STACK, TILE, with_immediate
from compiler.evaluation.sizes import Size
from compiler.graph import GraphError
from tx8isa.numbers.division import round_up

BASE = "tp"
"""Holds the address of the table of sizes, in the stack of the tile, throughout the program."""
_REACH = 2048
"""Bytes that a load reaches before and after an address."""
_BLOCK = "a7"
"""Holds the address of the shape block in the shape program."""
_REGISTERS = tuple(register for register in POOL if register != _BLOCK)
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
        out.instruction("la", _BLOCK, f"%core({SHAPE_BLOCK})")
        core = _SizeCode(out, self.places)
        for text, size in self.sizes.items():
            if size.op == "symbol":
                register = core.load(text, f"{names.index(size.name) * SHAPE_WORD}({_BLOCK})")
            else:
                register = core.computed(size)
            out.instruction("sd", register, self.places[text])
        if words:
            out.instruction("bnez", TILE, "1f")
            out.instruction("la", _BLOCK, f"%core({SHAPE_BLOCK})")
            for at, word in enumerate(words, len(names)):
                out.instruction("ld", "t0", self.places[str(word)])
                out.instruction("sd", "t0", f"{at * SHAPE_WORD}({_BLOCK})")
            out.label("1")
        return out.lines

    def _far(self, out: Emitter) -> None:
        out.instruction("li", "t0", str(-self.bytes))
        out.instruction("add", STACK, STACK, "t0")


class _SizeCode:
    """Computes sizes one after another; registers keep what they hold as long as there are others."""

    def __init__(self, out: Emitter, places: Mapping[str, str]) -> None:
        self._out, self._places = out, places
        self._free = list(_REGISTERS)
        self._held: dict[str, str] = {}
        """Registers by the text of what they hold, that first which was asked for longest ago."""
        self._used: list[str] = []
        """Registers of operands that are needed next."""

    def load(self, text: str, place: str) -> str:
        """The register of a size that is in memory."""
        register = self._new(text)
        self._out.instruction("ld", register, place)
        return register

    def computed(self, size: Size) -> str:
        """The register of a size that is computed of others."""
        left = self._operand(size.left)
        self._used.append(left)
        form = _with_immediate(size)
        right = "" if form or size.op == "neg" else self._operand(size.right)
        self._used.append(right)
        target = self._new(str(size))
        del self._used[-2:]
        if form is not None:
            self._out.instruction(form[0], target, left, str(form[1]))
        elif size.op == "neg":
            self._out.instruction("neg", target, left)
        else:
            _apply(self._out, size.op, target, left, right)
        return target

    def _operand(self, value: int | Size) -> str:
        """The register of a number or a size: as it is, from the table, or computed."""
        text = str(value)
        if text in self._held:
            register = self._held[text] = self._held.pop(text)
            return register
        if isinstance(value, Size):
            return self.load(text, self._places[text]) if text in self._places else self.computed(value)
        register = self._new(text)
        self._out.instruction("li", register, text)
        return register

    def _new(self, text: str) -> str:
        """A register for another value: a free one, or that which was asked for longest ago."""
        if self._free:
            register = self._free.pop(0)
        else:
            oldest = next(text for text, register in self._held.items() if register not in self._used)
            register = self._held.pop(oldest)
        self._held[text] = register
        return register


def _with_immediate(size: Size) -> tuple[str, int] | None:
    """The form of an operation with a number in the instruction."""
    if size.op == "sub" and not isinstance(size.right, Size):
        return with_immediate("add", -size.right)
    return with_immediate(size.op, size.right)


def _apply(out: Emitter, op: str, target: str, left: str, right: str) -> None:
    """target = left op right, in a register that is none of theirs."""
    if op in _NAMES:
        out.instruction(_NAMES[op], target, left, right)
    elif op == "ceil":
        out.instruction("add", target, left, right)
        out.instruction("addi", target, target, "-1")
        out.instruction("divu", target, target, right)
    elif op in ("min", "max"):
        out.instruction("mv", target, left)
        out.instruction("ble" if op == "min" else "bge", left, right, "1f")
        out.instruction("mv", target, right)
        out.label("1")
    elif op in ("eq", "ne"):
        out.instruction("sub", target, left, right)
        out.instruction("seqz" if op == "eq" else "snez", target, target)
    else:
        first, second = (left, right) if op in ("lt", "ge") else (right, left)
        out.instruction("slt", target, first, second)
        if op in ("ge", "le"):
            out.instruction("xori", target, target, "1")


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
