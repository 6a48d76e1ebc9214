"""The parts of a TTIR text: operations with operands, attributes, types and regions.

Values are known by their names in the text, without the percent sign; result number 2 of ``%acc:3`` is
``acc#2``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tx8isa.errors import Tx8Error


class TtirError(Tx8Error):
    """A text that cannot be read or compiled: the place, the operation, the finding and the allowed ones."""


@dataclass(frozen=True)
class Location:
    """The place of an operation: line and column of the text, and the line of Python if the text has it."""

    file: str
    line: int
    column: int
    python: tuple[str, int] | None = None
    """File and line of Python, the file as the text names it."""

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}:{self.column}"
        return f"{place} ({self.short})" if self.python else place

    @property
    def source(self) -> tuple[str, int]:
        """File and line of Python, or of the text."""
        return self.python or (self.file, self.line)

    @property
    def short(self) -> str:
        """The line of Python without the folder of its file, or the line of the text."""
        return f"{Path(self.python[0]).name}:{self.python[1]}" if self.python else f"{self.file}:{self.line}"


@dataclass(frozen=True)
class TtirType:
    """A type: ``element`` as TTIR names it (f16, i32), ``shape`` () for a scalar; maybe pointers."""

    element: str
    shape: tuple[int, ...] = ()
    pointer: bool = False

    def __str__(self) -> str:
        element = f"!tt.ptr<{self.element}>" if self.pointer else self.element
        return f"tensor<{'x'.join(map(str, self.shape))}x{element}>" if self.shape else element


@dataclass(frozen=True)
class TtirOperation:
    """One operation.

    ``words`` are the bare words of its text, such as a comparison's predicate; ``types`` the types after its
    colon, in their order; ``attributes`` have texts, numbers and tuples of numbers.
    """

    name: str
    operands: tuple[str, ...]
    results: tuple[str, ...]
    types: tuple[TtirType, ...]
    words: tuple[str, ...]
    attributes: dict[str, object]
    regions: tuple[Block, ...]
    location: Location


@dataclass(frozen=True)
class Block:
    """The operations of a region, and its parameters; a region has one block."""

    parameters: tuple[tuple[str, TtirType], ...]
    operations: tuple[TtirOperation, ...]

    def walk(self) -> Iterator[TtirOperation]:
        """Yield all operations; operations of inner regions follow the one that has them."""
        for operation in self.operations:
            yield operation
            for region in operation.regions:
                yield from region.walk()


@dataclass(frozen=True)
class TtirKernel:
    """A function of a module: its name, its parameters in order, its operations."""

    name: str
    body: Block
    location: Location
    parameters: tuple[tuple[str, TtirType], ...] = field(default=())


_TENSOR = re.compile(r"tensor<((?:\d+x)*)(.+)>")
_POINTER = re.compile(r"!tt\.ptr<([^,<>]+)(?:,\s*1)?>")


def parse_type(text: str) -> TtirType:
    """Parse a type; if it is neither a number nor a pointer, its text is its element."""
    tensor = _TENSOR.fullmatch(text)
    shape = tuple(map(int, tensor[1].split("x")[:-1])) if tensor else ()
    element = tensor[2] if tensor else text
    pointer = _POINTER.fullmatch(element)
    return TtirType(pointer[1] if pointer else element, shape, pointer is not None)
