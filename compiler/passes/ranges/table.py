"""The shape program: it computes all sizes that the code loads, once at the start of a run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from compiler.codegen.emitter import Emitter, instruction_text
from compiler.codegen.program import SHAPE_BLOCK, SHAPE_WORD
from compiler.codegen.registers import IMMEDIATES, POOL, SIZE_PREFIX, STACK, TILE, with_immediate
from compiler.evaluation.sizes import Size
from compiler.graph import GraphError
from tx8isa.numbers.division import round_up

BASES = ("tp", "ra")
"""Hold addresses in the table of sizes, which is in the stack of the tile, throughout the program."""
_REACH = 2048
"""Bytes that a load reaches before and after an address."""
_BLOCK = "a7"
"""Holds the address of the shape block in the shape program."""
_REGISTERS = tuple(register for register in POOL if register != _BLOCK)
_DEEP = 6
"""Least steps of a formula for which a part of it becomes a size of its own."""
_NAMES = {"add": "add", "sub": "sub", "mul": "mul", "div": "divu", "rem": "remu"}


class SizeTable:
    """The places of the sizes that the code loads; GraphError when there are too many."""

    def __init__(self, loads: Mapping[str, Size], more: Sequence[Size]) -> None:
        self.sizes: dict[str, Size] = {}
        names, every = _Names(), (*loads.values(), *more)
        parts = [(part, names.of(part)) for size in every for part in _parts(size)]
        uses = Counter[str]()
        for size in every:
            _count(size, uses, names)
        wanted = set(map(names.of, every))
        for part, text in parts:
            if part.op == "symbol" or uses[text] > 1 or _depth(part) % _DEEP == 0:
                wanted.add(text)
        for part, text in parts:
            if text in wanted:
                self.sizes.setdefault(text, part)
        self.bytes = round_up(len(self.sizes) * SHAPE_WORD, 16)
        if self.bytes > 2 * _REACH * len(BASES):
            most = 2 * _REACH * len(BASES) // SHAPE_WORD
            raise GraphError([f"the program needs {len(self.sizes)} sizes; at most {most} are possible"])
        self._middles = [min(self.bytes, begin + _REACH) for begin in range(0, self.bytes, 2 * _REACH)]
        self._names, self._uses, self._counts = names, uses, Counter[str]()
        self._elsewhere: set[str] = set()
        """Sizes that are computed in place, without the table."""
        self.places = {text: self._place_at(at * SHAPE_WORD) for at, text in enumerate(self.sizes)}
        self._texts = {text: names.of(size) for text, size in loads.items()}

    def _place_at(self, offset: int) -> str:
        """The operand for the place ``offset`` bytes from the beginning of the table."""
        number = offset // (2 * _REACH)
        return f"{offset - self._middles[number]}({BASES[number]})"

    def resolved(self, phases: Sequence[Sequence[str]]) -> list[list[str]]:
        """The lines of phases with the places of the sizes that they load.

        A size that is loaded once, and is one instruction from another size, is computed in place.
        """
        texts = (text for lines in phases for line in lines if (text := line.partition(SIZE_PREFIX)[2]))
        self._counts = Counter(self._texts[text] for text in texts)
        return [[each for line in lines for each in self._resolved(line)] for lines in phases]

    def _resolved(self, line: str) -> Iterator[str]:
        head, prefix, text = line.partition(SIZE_PREFIX)
        if not prefix:
            yield line
            return
        size = self.sizes[self._texts[text]]
        form = _with_immediate(size) if self._is_computed_once(size) else None
        if form is None:
            yield f"{head}{self.places[self._texts[text]]}  # {text}"
            return
        assert isinstance(size.left, Size)
        self._elsewhere.add(self._names.of(size))
        register = head.split()[1].rstrip(",")
        yield f"{head}{self.places[self._names.of(size.left)]}  # {size.left}"
        yield instruction_text(form[0], f"{register}, {register}, {form[1]}") + f"  # {text}"

    def _is_computed_once(self, size: Size) -> bool:
        """True if a size is needed at only one place of the code, and its operand is in the table."""
        text = self._names.of(size)
        other = isinstance(size.left, Size) and self._names.of(size.left) in self.places
        return other and self._counts[text] == self._uses[text] == 1

    def code(self, names: Sequence[str], words: Sequence[Size], phases: Sequence[Sequence[str]]) -> list[str]:
        """The shape program: loads dimensions from the shape block, computes all sizes, then stores ``words``
        into the block.

        Only sizes that it or the ``phases`` load get a place in the table.
        """
        out = Emitter()
        out.comment("sizes of the run")
        _move(out, STACK, -self.bytes)
        for base, middle in zip(BASES, self._middles, strict=False):
            _move(out, base, middle)
        out.instruction("la", _BLOCK, f"%core({SHAPE_BLOCK})")
        core = _SizeCode(out, self.places, self._names)
        for text, size in self.sizes.items():
            if text in self._elsewhere:
                continue
            if size.op == "symbol":
                register = core.load(text, f"{names.index(size.name) * SHAPE_WORD}({_BLOCK})")
            else:
                register = core.computed(size)
            out.instruction("sd", register, self.places[text])
        if words:
            out.instruction("bnez", TILE, "1f")
            for at, word in enumerate(words, len(names)):
                out.instruction("ld", "t0", self.places[self._names.of(word)])
                out.instruction("sd", "t0", f"{at * SHAPE_WORD}({_BLOCK})")
            out.label("1")
        return _without_unused_stores(out.lines, phases)


def _move(out: Emitter, register: str, distance: int) -> None:
    """Put the address ``distance`` bytes from the stack pointer into a register."""
    if distance in IMMEDIATES:
        out.instruction("addi", register, STACK, str(distance))
        return
    out.instruction("li", "t0", str(distance))
    out.instruction("add", register, STACK, "t0")


def _without_unused_stores(lines: Sequence[str], phases: Sequence[Sequence[str]]) -> list[str]:
    """The shape program without stores of sizes that nothing loads."""
    loaded = {_place(line) for code in (lines, *phases) for line in code if line.lstrip().startswith("ld ")}
    return [line for line in lines if not line.lstrip().startswith("sd ") or _place(line) in loaded | {""}]


def _place(line: str) -> str:
    """The place in the table to which a load or store refers; empty for another place."""
    place = line.partition("#")[0].split()[-1]
    return place if place.endswith(tuple(f"({base})" for base in BASES)) else ""


class _Names:
    """One name for sizes that are equal at all points: the text of the first such size."""

    def __init__(self) -> None:
        self._by_values: dict[bytes, str] = {}

    def of(self, size: Size) -> str:
        return self._by_values.setdefault(size.values.tobytes(), str(size))


class _SizeCode:
    """Computes sizes one after another; registers keep sizes for reuse until all are taken."""

    def __init__(self, out: Emitter, places: Mapping[str, str], names: _Names) -> None:
        self._out, self._places, self._names = out, places, names
        self._free = list(_REGISTERS)
        self._held: dict[str, str] = {}
        """Registers by the text of their contents, the least recently used first."""
        self._used: list[str] = []
        """Registers of operands that are needed next."""

    def load(self, text: str, place: str) -> str:
        """The register of a size that is in memory."""
        register = self._new(text)
        self._out.instruction("ld", register, place)
        return register

    def computed(self, size: Size) -> str:
        """The register of a size that is computed from others."""
        left = self._operand(size.left)
        self._used.append(left)
        if size.op == "ceil" and isinstance(size.right, int) and size.right - 1 in IMMEDIATES:
            return self._rounded_up(size, left, size.right)
        form = _with_immediate(size)
        right = "" if form or size.op == "neg" else self._operand(size.right)
        self._used.append(right)
        target = self._new(self._names.of(size))
        del self._used[-2:]
        if form is not None:
            self._out.instruction(form[0], target, left, str(form[1]))
        elif size.op == "neg":
            self._out.instruction("neg", target, left)
        else:
            _apply(self._out, size.op, target, left, right)
        return target

    def _rounded_up(self, size: Size, left: str, divisor: int) -> str:
        """The register of a quotient by a number, rounded up."""
        form = with_immediate("div", divisor)
        right = self._operand(divisor) if form is None else ""
        self._used.append(right)
        target = self._new(self._names.of(size))
        del self._used[-2:]
        self._out.instruction("addi", target, left, str(divisor - 1))
        self._out.instruction(
            *(form[0], target, target, str(form[1])) if form else ("divu", target, target, right)
        )
        return target

    def _operand(self, value: int | Size) -> str:
        """The register of a number or a size: at hand, from the table, or computed."""
        text = self._names.of(value) if isinstance(value, Size) else str(value)
        if text in self._held:
            register = self._held[text] = self._held.pop(text)
            return register
        if isinstance(value, Size):
            return self.load(text, self._places[text]) if text in self._places else self.computed(value)
        register = self._new(text)
        self._out.instruction("li", register, text)
        return register

    def _new(self, text: str) -> str:
        """A register for another value: a free one, or the least recently used one."""
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
    """target = left op right; ``target`` differs from both operands' registers."""
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
    """A size and the sizes from which it is computed, the latter first."""
    for operand in (size.left, size.right):
        if isinstance(operand, Size):
            yield from _parts(operand)
    yield size


def _count(size: Size, uses: Counter[str], names: _Names) -> None:
    """Count the uses of a size and its parts; the parts of equal sizes count once."""
    text = names.of(size)
    uses[text] += 1
    if uses[text] == 1:
        for operand in (size.left, size.right):
            if isinstance(operand, Size):
                _count(operand, uses, names)


def _depth(size: Size) -> int:
    return 1 + max((_depth(o) for o in (size.left, size.right) if isinstance(o, Size)), default=0)
