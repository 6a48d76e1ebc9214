"""The floating-point unit of the kernel core: one compiled function for all F and D operations.

The loop of ``core`` calls it with a predecoded word (``predecode``, FLOAT) and the address of the tile's
state. It is compiled separately, and only for programs with such an instruction.

The bodies of the records are exact and know all modes and flags. An operation of the host is used instead if
it certainly gives the same result. IEEE 754 fixes the results of the host, so no bit depends on the host.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from typing import Any, NamedTuple

from emulator.memory import state, stop
from emulator.native import FixedMeaning, compile_generated
from emulator.native.inline import Names
from emulator.native.primitives.memory import view_i64
from tx8isa.numbers.primitives import s64, u64
from tx8isa.riscv.float_arithmetic import DOUBLE, DYN, RMM, RNE, RTZ, SINGLE
from tx8isa.riscv.float_convert import INT32, INT64, UINT32, UINT64
from tx8isa.riscv.format import Scalar
from tx8isa.table import scalar as rv

Unit = Callable[[int, int], int]


class HostOperation(NamedTuple):
    """An operation of the host that gives the result of an instruction, as text for the loop of ``core``.

    x, y, z are binary64 operands, p, q, r binary32 ones, a, b words of registers. ``found`` is computed
    first; if ``right`` then holds, ``value`` is the result. A binary32 instruction is only tried on operands
    that are NaN-boxed (``boxed``). Operations that differ only in ``found`` share their code.
    """

    found: str
    right: str = "True"
    value: str = "found"
    mode: int = DYN
    """The rounding mode for which it is right; DYN means any mode."""
    inexact: bool = False
    """Right only if "inexact" is set already, because it does not compute that flag."""
    boxed: bool = False


def normal64(bits: int) -> bool:
    """Return True for a finite binary64 above the smallest normal number, to which a smaller one may be
    rounded."""
    return 1 << 52 < bits & 0x7FFFFFFFFFFFFFFF < 0x7FF << 52


def normal32(bits: int) -> bool:
    """Return True for a finite binary32 above the smallest normal number."""
    return 1 << 23 < bits & 0x7FFFFFFF < 0xFF << 23


def _double(operation: str) -> HostOperation:
    """Wrap an operation: a result inside the normal range raises no other flag than "inexact"."""
    return HostOperation(f"bits64({operation})", "normal64(found)", mode=RNE, inexact=True)


def _single(operation: str) -> HostOperation:
    found = f"s64(f32_bits({operation}))"
    return HostOperation(found, "normal32(found)", "found | -1 << 32", mode=RNE, inexact=True, boxed=True)


def _integer(low: str, high: str) -> HostOperation:
    return HostOperation("s64(0)", f"{low} < x < {high}", "int(x)", mode=RTZ, inexact=True)


_SIGN = 1 << 31

ON_HOST: dict[str, HostOperation] = {
    "fadd.d": _double("x + y"),
    "fsub.d": _double("x - y"),
    "fmul.d": _double("x * y"),
    "fdiv.d": _double("divide(x, y)"),
    "fsqrt.d": _double("sqrt(x)"),
    "fmadd.d": _double("fma64(x, y, z)"),
    "fmsub.d": _double("fma64(x, y, -z)"),
    "fnmsub.d": _double("fma64(-x, y, z)"),
    "fnmadd.d": _double("fma64(-x, y, -z)"),
    "fadd.s": _single("p + q"),
    "fsub.s": _single("p - q"),
    "fmul.s": _single("p * q"),
    "fdiv.s": _single("p / q"),
    "fmadd.s": _single("fma32(p, q, r)"),
    "fmsub.s": _single("fma32(p, q, -r)"),
    "fnmsub.s": _single("fma32(-p, q, r)"),
    "fnmadd.s": _single("fma32(-p, q, -r)"),
    **{
        f"{name}.d": HostOperation(f"1 if x {relation} y else 0", "x == x and y == y")
        for name, relation in (("feq", "=="), ("flt", "<"), ("fle", "<="))
    },
    **{
        f"{name}.s": HostOperation(f"1 if p {relation} q else 0", "p == p and q == q", boxed=True)
        for name, relation in (("feq", "=="), ("flt", "<"), ("fle", "<="))
    },
    "fsgnj.d": HostOperation("a & 0x7FFFFFFFFFFFFFFF | b & -1 << 63"),
    "fsgnj.s": HostOperation(f"a & {~_SIGN} | b & {_SIGN}", boxed=True),
    "fmv.x.d": HostOperation("a"),
    "fmv.d.x": HostOperation("a"),
    "fcvt.d.w": HostOperation("bits64(float(s32(a)))"),
    "fcvt.w.d": _integer("-2147483648.0", "2147483647.0"),
    "fcvt.l.d": _integer("-9007199254740992.0", "9007199254740992.0"),
}
"""Frequent instructions that are mostly executed by an operation of the host."""


@cache
def host_groups() -> dict[str, tuple[str, ...]]:
    """Return the mnemonics in ``ON_HOST`` that share their code with each of them."""
    groups: dict[HostOperation, list[str]] = {}
    for mnemonic, host in ON_HOST.items():
        groups.setdefault(host._replace(found=""), []).append(mnemonic)
    return {mnemonic: tuple(group) for group in groups.values() for mnemonic in group}


def on_host(record: Scalar, mode: int) -> bool:
    """Return True if an instruction with this rounding mode is tried on the host first."""
    host = ON_HOST.get(record.mnemonic)
    return host is not None and (host.mode == DYN or mode == host.mode or (host.mode == RNE and mode == DYN))


_GROUP = 8
"""Records per function; each call in a function costs it two stores at its start, even if it is not made."""

_HEAD = f"""
def unit(word, address):
    s = view_i64(address, {state.SIZE})
    d = word >> 8 & 127
    a = s64(s[u64(word >> 16) & u64(127)])
    b = s64(s[u64(word >> 24) & u64(127)])
    c = s64(s[u64(word >> 48) & u64(127)])
    op = word >> 32 & 255
    rm = word >> 40 & 7
    if rm == {DYN}:
        rm = s64(s[u64({state.FCSR})]) >> 5 & 7
    if rm > {RMM}:
        return {stop.ILLEGAL}
"""

_GROUP_HEAD = f"""
def group(op, a, b, c, rm, d, address):
    s = view_i64(address, {state.SIZE})
    value, flags = s64(0), s64(0)
"""

_GROUP_TAIL = f"""    s[u64(d)] = value
    s[u64({state.FCSR})] = s64(s[u64({state.FCSR})]) | flags
    return 0
"""


def float_records() -> tuple[Scalar, ...]:
    """Return the operations of the unit; their place here is the number in a predecoded word."""
    return tuple(record for record in rv.scalar_instructions() if record.kind == "float")


_described: dict[tuple[int, ...], tuple[tuple[Scalar, ...], FixedMeaning]] = {}
"""Descriptions by the identities of records, which the entry keeps alive; they are cached because every chip
asks for them."""


def describe(records: tuple[Scalar, ...]) -> FixedMeaning:
    """Return the parts of records that the text of the loop, or of the unit, depends on: for its key."""
    identities = tuple(map(id, records))
    if identities not in _described:
        _described[identities] = records, FixedMeaning(_description(records))
    return _described[identities][1]


def _description(records: Iterable[Scalar]) -> tuple[Any, ...]:
    described = []
    for record in records:
        fields = tuple((field.name, field.kind) for field in record.fields)
        described.append((record.mnemonic, record.kind, record.width, record.operands, fields, record.body))
    return tuple(described)


def _sources(record: Scalar) -> list[str]:
    """Return the arguments of a body, as names of the unit's variables."""
    names = {"rs1": "a", "rs2": "b", "rs3": "c", "rm": "rm"}
    return [names[operand] for operand in record.operands if operand != "rd"]


_USED = (view_i64, s64, u64)


def _group(records: dict[int, Scalar]) -> Callable[..., int]:
    """Return a function that executes the bodies of some records, by number."""
    names = Names()
    names.scope.update({function.__name__: function for function in _USED})
    lines = []
    for number, record in records.items():
        lines.append(f"    if op == {number}:\n")
        lines.append(f"        value, flags = {names.call(record.body, _sources(record))}\n")
    # Local copies of the formats, because Numba would compile every function again for each constant.
    for pair in (SINGLE, DOUBLE, INT32, UINT32, INT64, UINT64):
        lines.insert(0, f"    {names.name(pair)} = s64({pair[0]}), s64({pair[1]})\n")
    return names.function(_GROUP_HEAD + "".join(lines) + _GROUP_TAIL, "group")


def generate_unit() -> Unit:
    """Write the unit: a plain function of a predecoded word and the state's address; it returns 0, or the
    reason of a stop."""
    names = Names()
    names.scope.update({function.__name__: function for function in _USED})
    records = dict(enumerate(float_records()))
    call = f"    return {names.name(_bodies(records))}(op, a, b, c, rm, d, address)\n"
    return names.function(_HEAD + call, "unit")


def _bodies(records: dict[int, Scalar]) -> Callable[..., int]:
    """Return a function that executes the body of any record, by number."""
    names = Names()
    text = ["def bodies(op, a, b, c, rm, d, address):\n"]
    for first in range(0, len(records), _GROUP):
        members = {n: r for n, r in records.items() if first <= n < first + _GROUP}
        text.append(f"    if op < {first + _GROUP}:\n")
        text.append(f"        return {names.name(_group(members))}(op, a, b, c, rm, d, address)\n")
    text.append(f"    return {stop.ILLEGAL}\n")
    return names.function("".join(text), "bodies")


def unit_kernel() -> int:
    """Return the address of the compiled unit."""
    meaning = (describe(float_records()), *_USED)
    return compile_generated(generate_unit, meaning, "float unit", 2)
