"""References of a function to other objects, read from its code object."""

from __future__ import annotations

import builtins
import opcode
import sys
from dataclasses import dataclass
from types import CodeType, FunctionType
from typing import Any

_CACHE = opcode.opmap["CACHE"]
_LOAD_GLOBAL = opcode.opmap["LOAD_GLOBAL"]
_EXTENDED_ARG = opcode.opmap["EXTENDED_ARG"]
_LOAD_ATTR = tuple(opcode.opmap[name] for name in ("LOAD_ATTR", "LOAD_METHOD") if name in opcode.opmap)
_ATTR_SHIFT = 1 if sys.version_info >= (3, 12) else 0  # from 3.12 on the lowest bit marks a method call
_known: dict[CodeType, References] = {}


class KernelError(RuntimeError):
    """A kernel that cannot be turned into machine code: a mistake in its source, not in a user's program."""


@dataclass(frozen=True, slots=True)
class References:
    """A code object, the code of functions inside it included."""

    text: str
    """All of the code that has a meaning, without file, line numbers and names of local variables."""
    names: tuple[str, ...]
    """Names loaded from the globals or from builtins."""
    attributes: frozenset[tuple[str, str]]
    """(global name, attribute) pairs read as ``name.attribute``."""

    def attributes_of(self, name: str) -> list[str]:
        return sorted(attribute for owner, attribute in self.attributes if owner == name)


def references(code: CodeType) -> References:
    """Return the references of ``code``; computed once per code object."""
    found = _known.get(code)
    if found is None:
        found = _known[code] = _read(code)
    return found


def global_value(function: FunctionType, name: str, kernel: str) -> Any:
    """Return the object that ``name`` means inside ``function``."""
    if name in function.__globals__:
        return function.__globals__[name]
    if hasattr(builtins, name):
        return getattr(builtins, name)
    raise KernelError(f"kernel {kernel}: '{function.__qualname__}' uses '{name}', which is not defined")


def _read(code: CodeType) -> References:
    names, attributes = _loads(code)
    constants = []
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            inner = references(constant)
            names.update(dict.fromkeys(inner.names))
            attributes |= inner.attributes
            constants.append(inner.text)
        elif isinstance(constant, frozenset):  # in another order in each process
            constants.append(repr(sorted(map(repr, constant))))
        else:
            constants.append(repr(constant))
    shape = (code.co_argcount, code.co_flags, code.co_freevars, code.co_names, code.co_code.hex())
    return References(f"{shape}{constants}", tuple(names), frozenset(attributes))


def _loads(code: CodeType) -> tuple[dict[str, None], set[tuple[str, str]]]:
    names: dict[str, None] = {}
    attributes: set[tuple[str, str]] = set()
    raw, extended, owner = code.co_code, 0, ""
    for at in range(0, len(raw), 2):
        operation, argument = raw[at], raw[at + 1] | extended
        extended = argument << 8 if operation == _EXTENDED_ARG else 0
        if operation in (_CACHE, _EXTENDED_ARG):
            continue
        if operation == _LOAD_GLOBAL:
            owner = code.co_names[argument >> 1]  # the lowest bit marks a call
            names[owner] = None
            continue
        if owner and operation in _LOAD_ATTR:
            attributes.add((owner, code.co_names[argument >> _ATTR_SHIFT]))
        owner = ""
    return names, attributes
