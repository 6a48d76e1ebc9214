"""The kernel core: one compiled loop over predecoded words, generated from the scalar records.

The loop executes a tile until something happens that it cannot do itself. It then returns a reason of
``stop``, with the program counter at the instruction concerned. Engine instructions are issued and executed
inside the loop. After each of them it reads ``state.LIMIT`` again, so that it can be stopped from outside.

Its source is text: the templates below, with the bodies of the records inserted. A loop in plain Python would
be a second definition of every instruction, or would call the bodies, and a call costs more than most
instructions do. ``{NAME}`` is a number, see ``_numbers``; ``s`` is a view of the tile's words.

``loop`` has only frequent instructions and calls nothing, because every value that is needed after a call
costs a register for all other instructions. ``run`` calls ``loop`` in more than one place. Otherwise LLVM
would inline it, which makes it a quarter slower. ``run`` also calls translated code (``translate``), the
floating-point unit, the registers of the NCC and the hook of hints. It also reads mhartid, with which every
program begins, because otherwise sixteen tiles would leave compiled code one by one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from emulator.engines.packets import window_address
from emulator.memory import state, stop
from emulator.memory.known import known_access
from emulator.native import compile_generated
from emulator.native.inline import Names
from emulator.native.primitives.float32 import bits_f32, f32_bits, single
from emulator.native.primitives.memory import call_kernel, view_i64, view_u8, view_u16, view_u32, view_u64
from tx8isa.numbers.primitives import bits64, divide, fma32, fma64, from_bits64, s32, s64, sqrt, u64
from tx8isa.riscv.float_arithmetic import NX, RNE
from tx8isa.riscv.format import Scalar
from tx8isa.table import scalar as rv

from .accesses import call_check, host_address, is_made, maintenance, note_load, note_store
from .float_unit import ON_HOST, describe, float_records, host_groups, normal32, normal64
from .predecode import (
    ENGINE,
    FIRST_COMPRESSED,
    FLOAT,
    FULL,
    HINT,
    PARCEL,
    RD_BYTE,
    TRANSLATED,
    operation_records,
    reads_hart,
    shortened,
)

Run = Callable[[int], int]

_LOOP_HEAD = """
def loop(address):
    s = view_i64(address, {size})
    words = u64(s[u64({CODE_WORDS})])
    code = view_i64(s64(s[u64({CODE})]), words + u64(1))
    index = u64(s64(s[u64({PC})]) - s64(s[u64({CODE_BASE})])) >> {shift}
    n = s64(s[u64({RETIRED})])
    limit = s64(s[u64({LIMIT})])
    reason = {stop_limit}
    if index >= words:
        return {stop_illegal}
    while n < limit:
        w = code[index]
        op = w & 255
        d = u64(w >> 8) & u64(255)
        a = s64(s[u64(w >> 16) & u64(255)])
        t = u64(w >> 24) & u64(255)
        imm = w >> 32
        if op == 0:
            break
"""
"""Takes decoded word ``index`` apart: ``op`` is the operation, ``d`` the position of rd, ``a`` the value of
rs1, ``t`` the position of rs2, ``imm`` the immediate. ``n`` counts instructions."""

_ENGINE = """
s[u64({PC})] = s64(s[u64({CODE_BASE})]) + s64(index) * {parcel}
s[u64({RETIRED})] = n
reason = call_kernel(s64(s[u64({ISSUE})]), imm, address)
if reason >= 0:
    break
reason = {stop_limit}
limit = s64(s[u64({LIMIT})])
index += d
n += 1
continue
"""
"""Issues an engine instruction; its length in parcels is in the byte of rd."""

_LOOP_TAIL = """        elif op == {float}:
            break
        elif op == {translated}:
            break
        elif op == {hint}:
            break
        index += u64({full})
        n += 1
    s[u64({PC})] = s64(s[u64({CODE_BASE})]) + s64(index) * {parcel}
    s[u64({RETIRED})] = n
    if n < limit and reason == {stop_limit}:
        return leave(s64(code[index]) & 255)
    return reason
"""
"""Ends at operations outside the loop; then the state gets the program counter and the count."""

_LEAVE_HEAD = """
def leave(op):
    if op == 0:
        return {stop_illegal}
    if op == {translated}:
        return {stop_translated}
    if op == {hint}:
        return {stop_hint}
"""
"""The reason for which the loop was left at an operation."""

_RUN = """
def run(address):
    s = view_i64(address, {size})
    while True:
        reason = loop(address)
        while reason == {stop_translated} or reason == {stop_near}:
            code = s64(s[u64({CODE})])
            if reason == {stop_near}:
                s[u64({CODE})] = s64(s[u64({PLAIN})])
                reason = loop(address)
                s[u64({CODE})] = code
            else:
                place = u64(s64(s[u64({PC})]) - s64(s[u64({CODE_BASE})])) >> {shift}
                w = s64(view_i64(code, u64(s[u64({CODE_WORDS})]) + u64(1))[place])
                if w & 255 == {translated}:
                    reason = call_kernel(w >> 8, s64(place), address)
                else:
                    reason = loop(address)
        handled = reason == {stop_float} or reason == {stop_memory} or reason == {stop_csr}
        if not handled and reason != {stop_hint}:
            return reason
        place = u64(s64(s[u64({PC})]) - s64(s[u64({CODE_BASE})])) >> {shift}
        w = s64(view_i64(s64(s[u64({PLAIN})]), u64(s[u64({CODE_WORDS})]))[place])
        if reason == {stop_float}:
            if call_kernel(s64(s[u64({FLOAT_UNIT})]), w, address) != 0:
                return {stop_illegal}
        elif reason == {stop_csr}:
            if w & {not_rd} != {reads_hart}:
                return reason
            s[u64(w >> 8) & u64(255)] = s64(s[u64({HART})])
        elif reason == {stop_hint}:
            if s64(s[u64({HINT_HOOK})]) != 0:
                call_kernel(s64(s[u64({HINT_HOOK})]), w >> 32, address)
        else:
            host = window_address(s, s64(s[u64({DETAIL})]), s64(s[u64({DETAIL}) + u64(1)]))
            if host == 0 or access(s, w, host) == 0:
                return {stop_memory}
        size = {parcel} if w & 255 >= {compressed} and w & 255 < {compressed_end} else {full} * {parcel}
        s[u64({PC})] = s64(s[u64({PC})]) + size
        s[u64({RETIRED})] = s64(s[u64({RETIRED})]) + 1
"""
"""Calls the loop again until there is a reason to return that is not handled here. The loop and translated
code take turns: one goes on where control reaches or leaves the other (TRANSLATED), or the limit is too near
for translated code (NEAR_LIMIT)."""

_ACCESS_HEAD = """
def access(s, w, host):
    op = w & 255
    d = u64(w >> 8) & u64(127)
    t = u64(w >> 24) & u64(127)
"""
"""Executes a load or store at a host address: one of the registers of the NCC."""


_BASE = f"s64(s[u64({state.CODE_BASE})])"
_SHIFT = PARCEL.bit_length() - 1


def _jump(target: str) -> list[str]:
    """Return lines that go to a core address, after checking it."""
    return [
        f"next = {target}",
        f"off = u64(next - {_BASE})",
        f"if (off >> {_SHIFT}) >= words:",
        f"    s[u64({state.DETAIL})] = next",
        f"    reason = {stop.JUMP}",
        "    break",
    ]


UNCHECKED, HAZARDS, DATA = 0, 1, 2
"""Checks of loads and stores: none; those of ``state.CORE_CHECK``; a check for missing data."""


def statement(record: Scalar, names: Names, checked: int = UNCHECKED, length: int = FULL) -> list[str]:
    """Return lines that execute one operation, at ``index``. ``checked``: the kind of check, as above.

    ``length``: of the instruction in parcels, which gives the return address of a call.
    """
    second = "s64(s[t])" if any(field.name == "rs2" for field in record.fields) else "imm"
    # Read where they are used, because keeping these bases in registers slows every other instruction.
    pc = f"({_BASE} + s64(index) * {PARCEL})"
    if record.kind == "divide":
        return [_counted("DIVISIONS"), f"s[d] = {names.call(record.body, ['a', second])}"]
    if record.kind == "alu":
        return [f"s[d] = {names.call(record.body, ['a', second])}"]
    if record.kind == "upper":
        return [f"s[d] = {names.call(record.body, [pc, 'imm'])}"]
    if record.kind in ("load", "store"):
        return _memory_access(record, names, checked)
    if record.kind == "float":
        return _on_host(host_groups()[record.mnemonic])
    if record.kind == "branch":
        taken = [*_jump(f"{pc} + imm"), f"index = off >> {_SHIFT}", "n += 1", "continue"]
        return [f"if {names.call(record.body, ['a', second])}:", *(f"    {line}" for line in taken)]
    if record.kind in ("jal", "jalr"):
        target = names.call(record.body, [pc if record.kind == "jal" else "a", "imm"])
        link = f"s[d] = {pc} + {PARCEL * length}"
        return [*_jump(target), link, f"index = off >> {_SHIFT}", "n += 1", "continue"]
    if record.kind in ("fence", "cache", "cache line"):
        return _maintenance(record, checked)
    return ["pass" if record.kind == "wait" else "break"]


def _maintenance(record: Scalar, checked: int) -> list[str]:
    """Return lines of a fence or of cache maintenance, which only time and the sanitizer observe."""
    counted = {"cache": "CACHES", "cache line": "CACHE_LINES"}.get(record.kind)
    lines = [_counted(counted)] if counted else ["pass"]
    if checked & HAZARDS:
        lines += [
            f"s[u64({state.DETAIL} + 1)] = a",
            f"call_check(s64(s[u64({state.CORE_CHECK})]), s64(index) << 8 | {maintenance(record)}, address)",
        ]
    return lines


def _counted(what: str) -> str:
    """Return the line that counts something for simulated time."""
    place = getattr(state, what)
    return f"s[u64({place})] = s64(s[u64({place})]) + 1"


_LEAVE = {"csr": stop.CSR, "fence.i": stop.FENCE_I, "system": stop.SYSTEM, "float": stop.FLOAT}
"""Reasons to leave the loop, by kind of instruction. ``leave`` finds them out: as constants in the loop
these would occupy registers at every instruction."""


def _check(record: Scalar, checked: int) -> list[str]:
    """Return lines that check a load or store at host address ``host``."""
    what, lines = record.width << 1 | int(record.kind == "store"), list[str]()
    if checked & DATA and record.kind == "load":
        lines += [
            f"if is_made(s, host, s64({record.width})) != 0:",
            f"    s[u64({state.DETAIL})] = a + imm",
            f"    s[u64({state.DETAIL} + 1)] = {record.width}",
            f"    reason = {stop.MADE}",
            "    break",
        ]
    if checked & HAZARDS:
        lines += [
            f"if known_access(s, host, s64({what}), s64(index)) == 0:",
            f"    s[u64({state.DETAIL})] = host",
            f"    s[u64({state.DETAIL} + 1)] = a + imm",
            f"    call_check(s64(s[u64({state.CORE_CHECK})]), s64(index) << 8 | {what}, address)",
        ]
    return lines


def _memory_access(record: Scalar, names: Names, checked: int) -> list[str]:
    """Return lines of a load or store. ``s64`` of sizes keeps Numba from compiling for each literal."""
    size = record.width
    lines = [
        f"host = host_address(s, a + imm, s64({size}))",
        "if host == 0:",
        f"    s[u64({state.DETAIL})] = a + imm",
        f"    s[u64({state.DETAIL} + 1)] = {size}",
        f"    s[u64({state.DETAIL} + 2)] = {int(record.kind == 'store')}",
        f"    reason = {stop.MEMORY}",
        "    break",
        *_check(record, checked),
        _move(record, names),
    ]
    noted = "note_load(s, a + imm)" if record.kind == "load" else f"note_store(s, host, s64({size}))"
    return [*lines, noted]


def _move(record: Scalar, names: Names) -> str:
    """Return the line that loads from a host address, or stores there."""
    size = record.width
    element = f"{'view_i64' if size == 8 else f'view_u{8 * size}'}(host, 1)[u64(0)]"
    if record.kind == "load":
        return f"s[d] = {names.call(record.body, [f's64({element})'])}"
    return f"{element} = {names.call(record.body, ['s64(s[t])'])}"


def _on_host(group: Sequence[str]) -> list[str]:
    """Return lines of a group of ``host_groups``: the host's operation if it is right, else a ``break``.

    The floating-point unit then executes the instruction.
    """
    host = ON_HOST[group[0]]
    numbers = {record.mnemonic: number for number, record in enumerate(float_records())}
    text = " ".join((host.right, *(ON_HOST[mnemonic].found for mnemonic in group)))
    guards = []
    if host.inexact:
        mask = NX | (0b111 << 5 if host.mode == RNE else 0)  # frm counts when the mode is dynamic
        guards.append(f"s64(s[u64({state.FCSR})]) & {mask} == {NX}")
    if host.boxed:
        guards.append("(a & b & c) >> 32 == -1")
    names, widen = ("pqr", "bits_f32") if host.boxed else ("xyz", "from_bits64")
    used = [k for k in range(3) if re.search(rf"\b{names[k]}\b", text)]
    lines = [f"{names[k]} = {widen}({'abc'[k]})" for k in used]
    for mnemonic in group[1:]:
        lines.append(f"{'elif' if len(lines) > len(used) else 'if'} imm & 255 == {numbers[mnemonic]}:")
        lines.append(f"    found = {ON_HOST[mnemonic].found}")
    lines += ["else:", f"    found = {host.found}"] if len(group) > 1 else [f"found = {host.found}"]
    return [
        "b = s64(s[t])",
        "c = s64(s[u64(w >> 48) & u64(255)])",
        "done = False",
        f"if {' and '.join(guards) or 'True'}:",
        *(f"    {line}" for line in lines),
        f"    if {host.right}:",
        f"        s[d] = {host.value}",
        "        done = True",
        "if not done:",
        "    break",
    ]


USED = (
    *(view_i64, view_u8, view_u16, view_u32, view_u64, s32, s64, u64, host_address, note_store, call_kernel),
    note_load,
    *(call_check, known_access, is_made),
    *(bits64, from_bits64, divide, sqrt, fma64, bits_f32, f32_bits, single, fma32, normal64, normal32),
    window_address,
)


def _numbers() -> dict[str, int]:
    """Return the numbers in braces in the templates above."""
    used = ("CODE", "PLAIN", "CODE_BASE", "CODE_WORDS", "PC", "RETIRED", "LIMIT", "ISSUE", "FLOAT_UNIT")
    numbers = {name: getattr(state, name) for name in (*used, "DETAIL", "HART", "HINT_HOOK")}
    numbers |= {"size": state.SIZE, "engine": ENGINE, "float": FLOAT, "translated": TRANSLATED, "hint": HINT}
    numbers |= {"parcel": PARCEL, "shift": _SHIFT, "full": FULL}
    numbers |= {"compressed": FIRST_COMPRESSED, "compressed_end": FIRST_COMPRESSED + len(shortened())}
    stops = ("LIMIT", "ILLEGAL", "FLOAT", "MEMORY", "TRANSLATED", "CSR", "HINT")
    numbers |= {f"stop_{name.lower()}": getattr(stop, name) for name in stops}
    return numbers | {"stop_near": stop.NEAR_LIMIT, "not_rd": ~RD_BYTE, "reads_hart": reads_hart()}


def engine_source() -> str:
    """Return lines that issue an engine instruction."""
    return _ENGINE.strip().format(**_numbers())


def generate_run(checked: int = UNCHECKED) -> Run:
    """Write the loop: a plain function of the state's address; ``checked`` names the checks."""
    numbers = _numbers()
    names = Names()
    names.scope.update({function.__name__: function for function in USED})
    loop, access, leave = [_LOOP_HEAD.format(**numbers)], [_ACCESS_HEAD], [_LEAVE_HEAD.format(**numbers)]
    for operation, (record, length) in operation_records().items():
        if record.kind == "float" and host_groups().get(record.mnemonic, ("",))[0] != record.mnemonic:
            continue
        loop.append(f"        elif op == {operation}:\n")
        lines = statement(record, names, checked, length)
        if length != FULL and lines[-1] not in ("continue", "break"):
            # The common end of the loop adds a full length. A separate end made all operations slower.
            lines.append(f"index -= u64({FULL - length})")
        loop += [f"            {line}\n" for line in lines]
        if record.kind in _LEAVE:
            leave.append(f"    if op == {operation}:\n        return {_LEAVE[record.kind]}\n")
        if record.width >= 4 and not any(field.kind == "float" for field in record.fields):
            access.append(f"    if op == {operation}:\n        {_move(record, names)}\n")
            access.append("        return 1\n")
    loop.append(f"        elif op == {ENGINE}:\n")
    loop += [f"            {line}\n" for line in engine_source().splitlines()]
    loop.append(_LOOP_TAIL.format(**numbers))
    leave.append(f"    return {stop.FLOAT}\n")
    names.scope["leave"] = names.function("".join(leave), "leave")
    names.scope["loop"] = names.function("".join(loop), "loop")
    access.append("    return 0\n")
    names.scope["access"] = names.function("".join(access), "access")
    return names.function(_RUN.format(**numbers), "run")


_LOOPS: Mapping[int, tuple[str, Callable[[], Run]]] = {
    UNCHECKED: ("kernel core", generate_run),
    HAZARDS: ("checked kernel core", lambda: generate_run(HAZARDS)),
    DATA: ("kernel core without data", lambda: generate_run(DATA)),
    HAZARDS | DATA: ("checked kernel core without data", lambda: generate_run(HAZARDS | DATA)),
}
"""The loops that there are, by their checks: name, and what writes it."""


def run_kernel(checked: int = UNCHECKED) -> int:
    """Return the address of the compiled loop; ``checked`` as in ``generate_run``."""
    meaning = (describe(rv.scalar_instructions()), describe(shortened()), *_numbers().items(), *USED)
    name, generate = _LOOPS[checked]
    return compile_generated(generate, meaning, name, 1)
