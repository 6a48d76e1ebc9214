"""Loads of a loop that run one iteration ahead: the next blocks arrive during the computation on these.

A load can run ahead if its places and its mask are formulas of the iteration, and the loop does not store
into its array. Products of loaded data with loop-invariant values run ahead too. So the matrix engine works
while the vector engine works on the product before. Each block has two copies, which iterations use
alternately.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from compiler.codegen.expr import Value, bounds, highest
from compiler.codegen.slices.tensors import BLOCK
from compiler.frontend.triton.kernels.site import KernelSite, RunAhead
from compiler.frontend.triton.kernels.values import ELEMENT_FORMATS, Computed, KernelValue, Pointers, SpmBlock
from compiler.frontend.triton.operations import Block, TtirOperation
from tx8isa.numbers.division import round_up
from tx8isa.numbers.layouts import LINE_BYTES

_FORMULAS = (
    *("arith.constant", "arith.addi", "arith.subi", "arith.muli", "arith.cmpi", "arith.andi", "arith.minsi"),
    *("arith.extsi", "arith.trunci", "arith.index_cast", "tt.splat", "tt.broadcast", "tt.expand_dims"),
    *("tt.make_range", "tt.addptr"),
)
"""Operations that a load which runs ahead may depend on: they write no code for engines."""

_CHANGES = ("tt.store", "tt.atomic_rmw", "tt.atomic_cas")
"""Operations that change arrays."""

AtTurn = Callable[[Value], list[KernelValue]]
"""Returns the index of the loop and the carried values at the beginning of an iteration."""


@dataclass(frozen=True)
class _Load:
    """A load, the operations that it needs, in order, and the name of its result."""

    operation: TtirOperation
    needs: tuple[TtirOperation, ...]


@dataclass(frozen=True)
class _Product:
    """A product, the transposes that it needs, in order, and the loads."""

    operation: TtirOperation
    needs: tuple[TtirOperation, ...]
    loads: frozenset[str]


class Prefetch:
    """Operations of a loop's body that run one iteration ahead.

    ``formulas``: names of the parameters of the body whose values are formulas.
    """

    def __init__(self, site: KernelSite, body: Block, formulas: set[str], turns: Value) -> None:
        self.site, self.body, self.turns = site, body, turns
        self.places: list[Value] = []
        self.sizes: list[int] = []
        self.blocks: list[SpmBlock] = []
        makers = {name: each for each in body.operations for name in each.results}
        allowed = formulas | {body.parameters[0][0]}
        inside = {name for name, _ in body.parameters}
        self.loads = [
            found
            for each in body.operations
            if each.name == "tt.load" and (found := self._ahead(each, makers, allowed, inside)) is not None
        ]
        if not site.ahead or highest(turns) < 2 or bounds(turns)[0] < 1:
            self.loads = []
        self.products: list[_Product] = []
        if site.ahead is RunAhead.PRODUCTS:
            self.products = [
                found for each in body.operations for found in self._products(each, makers, inside)
            ]

    @property
    def loaded(self) -> set[str]:
        """The results of loads that have arrived before an iteration begins."""
        return {load.operation.results[0] for load in self.loads}

    @property
    def names(self) -> set[str]:
        """All results that have arrived before an iteration begins."""
        return self.loaded | {product.operation.results[0] for product in self.products}

    def begin(self, at: AtTurn) -> None:
        """Load for the first iteration; loads from arrays that the loop changes do not run ahead."""
        with self.site.inner():
            for (name, _), value in zip(self.body.parameters, at(0), strict=True):
                self.site.values[name] = value
            changed = self._changed()
            self.loads = [load for load in self.loads if not self._meets(load, changed)]
        if not self.loads:
            self.products = []
        else:
            first = self.site.kernel.registers.counter(0, 0, highest(self.turns) - 1)
            self._load_first(at(first))

    def _load_first(self, arguments: Sequence[KernelValue]) -> None:
        """Write the first loads; loads that turn out not to be DMA copies do not run ahead."""
        loads, self.loads, products, self.products = self.loads, [], self.products, []
        for load in loads:
            before, kept, self.loads = len(self.places), self.loads, [load]
            blocks = self._loaded(arguments, self._new_place)
            copied = len(self.places) > before
            self.loads = [*kept, load] if copied else kept
            self.blocks += blocks if copied else []
        self.products = [product for product in products if product.loads <= self.loaded]
        with self.site.inner():
            for load, block in zip(self.loads, self.blocks, strict=True):
                self.site.values[load.operation.results[0]] = block
            self.blocks += self._multiplied(self._new_place)

    def _changed(self) -> set[str] | None:
        """Return the arguments of the kernel to which the loop stores; None if that is not known."""
        stores = [each for each in self.body.walk() if each.name in _CHANGES]
        found = [self._array(each.operands[0]) for each in stores]
        return None if None in found else {name for name in found if name is not None}

    def _meets(self, load: _Load, changed: set[str] | None) -> bool:
        array = self._array(load.operation.operands[0])
        return changed is None or (bool(changed) and array in {None, *changed})

    def _array(self, name: str) -> str | None:
        """Return the argument of the kernel that a pointer belongs to; None if that is not known."""
        makers = {result: each for each in self.body.walk() for result in each.results}
        while name not in self.site.values:
            if name not in makers or not makers[name].operands:
                return None
            name = makers[name].operands[0]
        value = self.site.values[name]
        return value.argument or None if isinstance(value, Pointers) else None

    def next(self, at: AtTurn, turn: Value) -> None:
        """Begin the loads of the next iteration, and record this iteration's results."""
        if not self.loads:
            return
        kernel, most = self.site.kernel, highest(self.turns) - 1
        places = iter(zip(self.places, self.sizes, strict=True))

        def other(size: int) -> Value:
            place, each = next(places)
            return kernel.let(place + (turn + 1) % 2 * each)

        with kernel.if_below(turn + 1, self.turns):
            following = kernel.registers.hold(kernel.registers.compute(turn + 1), 0, most)
            blocks = self._loaded(at(following), other)
            with self.site.inner():
                for load, block in zip(self.loads, blocks, strict=True):
                    self.site.values[load.operation.results[0]] = block
                self._multiplied(other)
        operations = [load.operation for load in self.loads]
        operations += [product.operation for product in self.products]
        for operation, block, place, size in zip(
            operations, self.blocks, self.places, self.sizes, strict=True
        ):
            here = kernel.let(place + turn % 2 * size)
            self.site.values[operation.results[0]] = replace(block, address=here)

    def _ahead(
        self, load: TtirOperation, makers: dict[str, TtirOperation], allowed: set[str], inside: set[str]
    ) -> _Load | None:
        """Return a load with the operations that it needs, if these are formulas."""
        needs: dict[str, TtirOperation] = {}

        def is_formula(name: str) -> bool:
            if name in inside:
                return name in allowed
            maker = makers.get(name)
            if maker is None:
                return not isinstance(self.site.values.get(name), SpmBlock | Computed)
            if name in needs:
                return True
            if maker.name not in _FORMULAS or not all(map(is_formula, maker.operands)):
                return False
            needs[name] = maker
            return True

        if load.types[-1].shape and all(map(is_formula, load.operands)):
            return _Load(load, tuple(needs.values()))
        return None

    def _products(
        self, found: TtirOperation, makers: dict[str, TtirOperation], inside: set[str]
    ) -> list[_Product]:
        """Return a product with its operations, if its operands are loaded ahead or known before the loop."""
        loaded, loads = self.loaded, set[str]()
        needs: dict[str, TtirOperation] = {}
        if found.name != "tt.dot" or found.operands[2] in (*makers, *inside):
            return []
        for operand in found.operands[:2]:
            name = operand
            while name in makers and makers[name].name == "tt.trans":
                needs[name] = makers[name]
                name = makers[name].operands[0]
            if name in loaded:
                loads.add(name)
            elif name in makers or name in inside:
                return []
        return [_Product(found, tuple(reversed(needs.values())), frozenset(loads))] if loads else []

    def _multiplied(self, landing: Callable[[int], Value]) -> list[SpmBlock]:
        """Write the products, whose operands are known."""
        site, blocks = self.site, []
        homes = site.homes
        for product in self.products:
            kind, name = product.operation.types[-1], product.operation.results[0]
            fmt, columns = ELEMENT_FORMATS[kind.element], kind.shape[-1]
            home = SpmBlock(0, kind.element, fmt, kind.shape, (True, True), columns > BLOCK)
            home = replace(home, address=landing(home.count * home.size))
            site.homes = {**homes, name: home}
            site.run([*product.needs, product.operation])
            blocks.append(home)
        site.homes = homes
        return blocks

    def _new_place(self, size: int) -> Value:
        each = round_up(size, LINE_BYTES)
        place = self.site.kernel.buffer("ahead", 2 * each)
        self.places.append(place)
        self.sizes.append(each)
        return place

    def _loaded(self, arguments: Sequence[KernelValue], landing: Callable[[int], Value]) -> list[SpmBlock]:
        """Write the loads for these values of the body's parameters."""
        site, found = self.site, []
        with site.inner():
            for (name, _), value in zip(self.body.parameters, arguments, strict=True):
                site.values[name] = value
            for load in self.loads:
                site.run([each for each in load.needs if each.results[0] not in site.values])
                site.blocks.landing = landing
                site.run([load.operation])
                site.blocks.landing = None
                block = site.values[load.operation.results[0]]
                assert isinstance(block, SpmBlock)
                found.append(block)
        return found
