"""Computes in 16 bits some operations that Triton does in FP32, with the same result in half the time.

Triton's library widens the operand of a maximum, and its exponentials take only FP32. The largest of widened
numbers is a number of 16 bits. An exponential between a widening and a rounding is rounded once here, where
Triton rounds twice: in rare cases the last bit differs.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from compiler.frontend.triton.operations import Block, TtirOperation, TtirType

_WIDENING, _ROUNDING = "arith.extf", "arith.truncf"
_SHORT = ("f16", "bf16")
_CHOICES = ("arith.maxnumf", "arith.minnumf")
"""Functions of reductions whose result is one of the operands."""
_FUNCTIONS = ("math.exp", "math.exp2")


def narrowed(body: Block) -> Block:
    """Return the operations of a kernel, in 16 bits where that is possible."""
    uses = Counter(name for each in body.walk() for name in each.operands)
    return _Narrowing(uses).block(body)


class _Narrowing:
    """Rewrites blocks; ``uses`` counts how often each name is an operand in the kernel."""

    def __init__(self, uses: Counter[str]) -> None:
        self.uses = uses
        self.wide: dict[str, TtirOperation] = {}
        """Widenings of 16 bits to FP32, by their results."""
        self.functions: dict[str, TtirOperation] = {}
        """Functions of such widenings, by their results."""
        self.dropped: set[str] = set()
        """Results that nothing uses any more."""
        self.names: dict[str, str] = {}
        """Results that equal other results, by name."""

    def block(self, block: Block) -> Block:
        found: list[TtirOperation] = []
        for each in block.operations:
            operands = tuple(self.names.get(name, name) for name in each.operands)
            found += self._rewritten(replace(each, operands=operands))
        return Block(block.parameters, tuple(each for each in found if not self.dropped & set(each.results)))

    def _rewritten(self, found: TtirOperation) -> list[TtirOperation]:
        if found.name == _WIDENING and _is_widening(found):
            self.wide[found.results[0]] = found
        elif found.name in _FUNCTIONS and found.operands[0] in self.wide:
            self.functions[found.results[0]] = found
        elif found.name == _ROUNDING:
            return self._rounded(found)
        elif found.name == "tt.reduce":
            return self._reduced(found)
        else:
            found = replace(found, regions=tuple(map(self.block, found.regions)))
        return [found]

    def _reduced(self, found: TtirOperation) -> list[TtirOperation]:
        """Choose among the numbers of 16 bits in place of widened ones, and widen the result."""
        (body,), (name, *others) = found.regions, found.operands
        widening = self.wide.get(name)
        if others or widening is None or len(body.operations) != 2 or body.operations[0].name not in _CHOICES:
            return [found]
        short = widening.types[0].element
        result = f"{found.results[0]}.short"
        reduced = replace(_in_format(found, short), operands=widening.operands, results=(result,))
        kind = found.types[-1]
        again = replace(
            widening,
            operands=(result,),
            results=found.results,
            types=(replace(kind, element=short), kind),
            location=found.location,
        )
        self._replace(name, widening.operands[0])
        self.uses[result] = 1
        self.wide[found.results[0]] = again
        return [reduced, again]

    def _rounded(self, found: TtirOperation) -> list[TtirOperation]:
        """Drop the rounding of a widened number, or compute a function between both in 16 bits."""
        (name,), short = found.operands, found.types[-1].element
        if name in self.wide and self.wide[name].types[0].element == short:
            source = self.wide[name].operands[0]
            self.names[found.results[0]] = source
            self._replace(name, source, self.uses[found.results[0]])
            return []
        function = self.functions.get(name)
        if function is None or self.uses[name] > 1:
            return [found]
        widening = self.wide[function.operands[0]]
        if widening.types[0].element != short:
            return [found]
        self._replace(function.operands[0], widening.operands[0])
        self.dropped.add(name)
        short_function = _in_format(function, short)
        return [replace(short_function, operands=widening.operands, results=found.results)]

    def _replace(self, name: str, source: str, times: int = 1) -> None:
        """Count one use of a name less, and ``times`` uses of another more."""
        self.uses[name] -= 1
        self.uses[source] += times
        if self.uses[name] == 0:
            self.dropped.add(name)


def _is_widening(found: TtirOperation) -> bool:
    return (
        found.types[0].element in _SHORT and found.types[-1].element == "f32" and bool(found.types[0].shape)
    )


def _in_format(found: TtirOperation, element: str) -> TtirOperation:
    """Return an operation and its regions with FP32 replaced by another format."""

    def kind(each: TtirType) -> TtirType:
        return replace(each, element=element) if each.element == "f32" and not each.pointer else each

    regions = tuple(
        Block(
            tuple((name, kind(each)) for name, each in block.parameters),
            tuple(_in_format(each, element) for each in block.operations),
        )
        for block in found.regions
    )
    return replace(found, types=tuple(map(kind, found.types)), regions=regions)
