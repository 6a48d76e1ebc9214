"""Tables of C functions: the members, their parameters, and the packet fields that they fill."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from tx8isa.errors import Tx8Error
from tx8isa.records.record import Instruction
from tx8isa.table.packets import Packet


class MemberError(Tx8Error):
    """A member of a table contradicts its record or its packet."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of a member: its C type and its name."""

    type: str
    name: str

    @property
    def declared(self) -> str:
        """The parameter as C declares it: ``Data_Format fmt``."""
        return f"{self.type}{'' if self.type.endswith('*') else ' '}{self.name}"


def parameters(text: str) -> tuple[Parameter, ...]:
    """Parse a C parameter list: ``uint64_t src0_addr, St_StrideIteration *si``."""
    found = []
    for word in filter(None, text.split(", ")):
        kind, _, name = word.rpartition(" ")
        stars = len(name) - len(name.lstrip("*"))
        found.append(Parameter(f"{kind} {'*' * stars}".rstrip(), name.lstrip("*")))
    return tuple(found)


@dataclass(frozen=True)
class Member:
    """One function of a table: it fills fields of the packet that is its first argument."""

    name: str
    packet: Packet
    parameters: tuple[Parameter, ...]
    """The parameters after the packet."""
    fills: tuple[tuple[str, str], ...]
    """Assigned fields of the packet, or ``inter_type``, and their C expressions, in order."""
    published: bool
    """True when the signature is the vendor's (spec); otherwise it is proposed."""
    record: Instruction | None = None
    """The instruction that the member encodes completely; None if several members encode it together."""

    def __post_init__(self) -> None:
        fields = {field.name for field in self.packet.fields}
        for name, _ in self.fills:
            if name not in fields:
                raise MemberError(f"member {self.name}: {self.packet.name} has no field '{name}'")

    @property
    def signature(self) -> str:
        """The parameters as C declares them, the packet first."""
        return ", ".join([f"{self.packet.name} *instr", *(p.declared for p in self.parameters)])

    @property
    def unused(self) -> Iterator[Parameter]:
        """Parameters without a packet field."""
        for parameter in self.parameters:
            if not any(_mentions(expression, parameter.name) for _, expression in self.fills):
                yield parameter


def _mentions(expression: str, name: str) -> bool:
    cut = "".join(letter if letter.isalnum() or letter == "_" else " " for letter in expression)
    return name in cut.split()


@dataclass(frozen=True)
class Table:
    """A structure of function pointers, and its names in C programs."""

    name: str
    """Its C type, ``TsmArith``."""
    pointer: str
    """The member of ``TsmOperatorPointer`` that points to it, ``arith_pointer``."""
    instruction: str
    """The vendor's name for its packets, ``TsmArithInstr``; empty if it equals the packet's name."""
    members: tuple[Member, ...]

    @cached_property
    def stem(self) -> str:
        """``Arith``, as in ``TsmNewArith``."""
        return self.name.removeprefix("Tsm")
