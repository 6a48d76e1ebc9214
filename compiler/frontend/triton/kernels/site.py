"""The place where the code of a kernel is written: the values so far, and the writers of operations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import IntEnum

from asm.instructions.text import quote
from compiler.codegen.expr import Operation, Value
from compiler.codegen.kernel import Kernel
from compiler.frontend.triton.operations import Block, Location, TtirOperation

from .core.access import AccessCode
from .core.addresses import AddressCode
from .core.atomics import AtomicCode
from .core.compute import CoreCode
from .core.messages import MessageCode
from .core.picks import PickCode
from .engines.blocks import BlockCode
from .engines.elements import ElementCode
from .engines.memory import MemoryCode
from .engines.products import ProductCode
from .engines.reductions import ReductionCode, ScanCode
from .engines.shapes import ShapeCode
from .values import (
    FLOAT_FORMATS,
    TRUTH,
    Computed,
    Indices,
    KernelValue,
    Pointers,
    Region,
    SpmBlock,
    UnsupportedOperation,
)

TAKE_TURNED = ("tt.dot", "tt.trans")
"""Operations that take a matrix whose columns follow each other."""

_ON_DATA = (
    *("tt.load", "tt.store", "tt.atomic", "tt.reduce", "tt.scan", "tt.gather", "tt.histogram"),
    *("tt.assert", "tt.print"),
)
"""Operations that work on data of any type."""

Handler = Callable[["KernelSite", TtirOperation, list[KernelValue]], Sequence[KernelValue]]
"""Writes one operation with these operands; returns its results."""


class RunAhead(IntEnum):
    """Operations of a loop's body that run one iteration ahead: more is faster and takes more scratchpad."""

    NOTHING, LOADS, PRODUCTS = range(3)


@dataclass
class KernelSite:
    """The code of one program of the grid.

    ``program`` is its place in the grid and ``grid`` the extents. ``homes``: blocks wanted for the results of
    operations, by the names of the results.
    """

    kernel: Kernel
    handlers: dict[str, Handler]
    program: tuple[Value, Value, Value]
    grid: tuple[int, int, int]
    sizes: Mapping[str, int] = field(default_factory=dict)
    """Bytes of the arrays by their arguments."""
    values: dict[str, KernelValue] = field(default_factory=dict)
    homes: dict[str, SpmBlock] = field(default_factory=dict)
    outside: frozenset[str] = frozenset()
    """Results of operations around the region being written: a loop may read them again."""
    uses: Counter[str] = field(default_factory=Counter)
    """The number of times that each name is an operand in the kernel."""
    ahead: RunAhead = RunAhead.PRODUCTS
    """Operations of loops that run one iteration ahead; their blocks have two copies."""
    ready: frozenset[str] = frozenset()
    """Results that are known before their operations, which ran ahead."""
    loaded: frozenset[str] = frozenset()
    """The results among ``ready`` that do not change."""
    quiet: bool = False
    """True if operations are written without naming their lines."""
    python: bool = False
    """True if the text names lines of Python; operations without one then belong to the line before."""
    line: tuple[str, int] = ("", 0)
    """File and line to which instructions belong now."""

    def __post_init__(self) -> None:
        self.blocks = BlockCode(self.kernel)
        self.elements = ElementCode(self.blocks)
        self.memory = MemoryCode(self.blocks)
        self.products = ProductCode(self.blocks)
        self.reductions = ReductionCode(self.blocks)
        self.shapes = ShapeCode(self.blocks)
        self.core = CoreCode(self.blocks)
        self.blocks.made_by_core = self.core.block
        self.messages = MessageCode(self.kernel, self.program)
        self.addresses = AddressCode(self.kernel, self.messages, self.sizes)
        self.access = AccessCode(self.core, self.memory, self.messages, self.sizes)
        self.atomics = AtomicCode(self.access, self.memory)
        self.picks = PickCode(self.core, self.messages)
        self.scans = ScanCode(self.reductions)

    def run(self, operations: Sequence[TtirOperation]) -> None:
        """Write operations in their order; TtirError for one that cannot be written, with its place."""
        for operation in operations:
            if operation.results and operation.results[0] in self.ready:
                continue
            self._name(operation)
            self.blocks.home = self.homes.get(operation.results[0]) if operation.results else None
            results = self.evaluate(operation)
            self.blocks.home = None
            for name, value in zip(operation.results, results, strict=True):
                self.values[name] = self._kept(value)

    def evaluate(self, operation: TtirOperation) -> Sequence[KernelValue]:
        """Return the results of one operation, whose operands must be there; TtirError as for ``run``."""
        handler = self.handlers.get(operation.name)
        try:
            if handler is None:
                raise UnsupportedOperation("not supported; docs/triton.md lists the operations that are")
            return handler(self, operation, [self._operand(operation, name) for name in operation.operands])
        except UnsupportedOperation as error:
            raise error.at(operation.location, operation.name) from None

    def run_block(self, block: Block, arguments: Sequence[KernelValue]) -> list[KernelValue]:
        """Write the operations of a region; return the results of its last operation."""
        for (name, _), value in zip(block.parameters, arguments, strict=True):
            self.values[name] = value
        self.run(block.operations[:-1])
        return [self.values[name] for name in block.operations[-1].operands]

    def is_last_use(self, name: str) -> bool:
        """Return True if only the operation being written reads a block, under any name."""
        value = self.values[name]
        elsewhere = name in self.outside or name in self.loaded or self.uses[name] != 1
        if not isinstance(value, SpmBlock) or value.carried or elsewhere:
            return False
        blocks = [each for each in self.values.values() if isinstance(each, SpmBlock)]
        return sum(each.address is value.address for each in blocks) == 1

    @contextmanager
    def inner(self) -> Iterator[None]:
        """Forget the values computed inside at the end of the block."""
        values, made, outside = dict(self.values), dict(self.core.made), self.outside
        self.outside = frozenset(values)
        yield
        self.values, self.core.made, self.outside = values, made, outside

    def single(self, value: KernelValue, element: str) -> KernelValue:
        """Return the only element of a value: an integer as a formula, a truth value as a condition."""
        if element in FLOAT_FORMATS or isinstance(value, Indices | Region | Pointers):
            return value
        held = Indices(self.core.of_block(value) if isinstance(value, SpmBlock) else self._number(value))
        return Region((), ((0, held.offset),)) if element == TRUTH else held

    def _number(self, value: KernelValue) -> Value:
        assert isinstance(value, Computed)
        return self.core.scalar(value).offset

    @contextmanager
    def within(self, operation: TtirOperation) -> Iterator[None]:
        """Assign the operations inside to the line of ``operation``."""
        before, self.quiet = self.quiet, True
        yield
        self.quiet = before

    def _operand(self, operation: TtirOperation, name: str) -> KernelValue:
        """Return the value of a name; a turned matrix is transposed unless the operation takes it so."""
        value = self.values[name]
        if not isinstance(value, SpmBlock) or not value.turned or operation.name in TAKE_TURNED:
            return value
        straight = self.values[name] = self.blocks.straight(value)
        return straight

    def _kept(self, value: KernelValue) -> KernelValue:
        """Return an integer in a register of its own, if it takes instructions to compute it."""
        if isinstance(value, Indices) and not value.shape and isinstance(value.offset, Operation):
            return Indices(self.kernel.let(value.offset))
        return value

    def _name(self, operation: TtirOperation) -> None:
        """Assign later instructions, faults and statistics to the line of an operation."""
        if self.quiet or not self.locate(operation.location):
            return
        line = operation.location.short
        if _computes(operation) and line != self.kernel.node:
            self.kernel.node = line
            self.kernel.out.directive(f".node {quote(line)}")

    def locate(self, location: Location) -> bool:
        """Let debuggers show this line from here on.

        False without one, in a text that names lines of Python.
        """
        if self.python and location.python is None:
            return False
        if location.source != self.line:
            self.line = location.source
            file, line = location.source
            self.kernel.out.directive(f".loc {quote(file)} {line}")
        return True


def _computes(operation: TtirOperation) -> bool:
    """Return True if an operation works on data."""
    floats = any(not kind.pointer and kind.element in FLOAT_FORMATS for kind in operation.types)
    return floats or operation.name.startswith(_ON_DATA)
