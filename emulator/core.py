"""The kernel core: one compiled loop over predecoded words, written from the scalar records.

The loop executes a tile until something happens that it cannot do itself: it then leaves with a reason of
``stop``, the program counter on the instruction concerned. Engine instructions are issued and executed from
inside; after each of them the loop looks at ``state.LIMIT`` again, so that it can be stopped from outside.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tx8isa import rv
from tx8isa.primitives import s64, u64

from . import state, stop
from .native import compile_generated
from .native.inline import Names
from .native.memory import call_kernel, view_i64, view_u8, view_u16, view_u32, view_u64
from .predecode import ENGINE, FIRST_SCALAR

Run = Callable[[int], int]


def host_address(s: Any, address: int, size: int) -> int:
    """Host address of ``size`` bytes at a core address, or 0 when they are not all in one memory."""
    off = u64(address - s64(s[u64(state.CORE_SPM)]))
    if off <= u64(s64(s[u64(state.SPM_BYTES)]) - size):
        return s64(s[u64(state.SPM)]) + s64(off)
    off = u64(address - s64(s[u64(state.CORE_DDR)]))
    window = u64(s64(s[u64(state.CORE_WINDOW)]) - size)
    if off <= window:
        return s64(s[u64(state.DDR)]) + s64(off)
    off = u64(address - s64(s[u64(state.CORE_SPM_STRONG)]))
    if off <= u64(s64(s[u64(state.SPM_BYTES)]) - size):
        return s64(s[u64(state.SPM)]) + s64(off)
    off = u64(address - s64(s[u64(state.CORE_DDR_UNCACHED)]))
    if off <= window:
        return s64(s[u64(state.DDR)]) + s64(off)
    return 0


def note_store(s: Any, host: int, size: int) -> None:
    """Mark the SPM lines of a store."""
    off = u64(host - s64(s[u64(state.SPM)]))
    if off < u64(s[u64(state.SPM_BYTES)]):
        lines = s64(s[u64(state.LINES)])
        view_u8(lines + s64(off >> 8), 1)[u64(0)] = 1
        view_u8(lines + (s64(off) + size - 1 >> 8), 1)[u64(0)] = 1


_HEAD = """
def run(address):
    s = view_i64(address, {size})
    words = u64(s[u64({CODE_WORDS})])
    code = view_i64(s64(s[u64({CODE})]), words)
    base = s64(s[u64({CODE_BASE})])
    index = u64(s64(s[u64({PC})]) - base) >> 2
    n = s64(s[u64({RETIRED})])
    limit = s64(s[u64({LIMIT})])
    issue = s64(s[u64({ISSUE})])
    reason = {stop_limit}
    while n < limit:
        if index >= words:
            reason = {stop_illegal}
            break
        w = code[index]
        op = w & 255
        d = u64(w >> 8) & u64(63)
        a = s64(s[u64(w >> 16) & u64(31)])
        t = u64(w >> 24) & u64(31)
        imm = w >> 32
        if op == 0:
            reason = {stop_illegal}
            break
"""

_TAIL = """        elif op == {engine}:
            s[u64({PC})] = base + s64(index) * 4
            reason = call_kernel(issue, imm, address)
            if reason >= 0:
                break
            reason = {stop_limit}
            limit = s64(s[u64({LIMIT})])
            index += d
            n += 1
            continue
        index += u64(1)
        n += 1
    s[u64({PC})] = base + s64(index) * 4
    s[u64({RETIRED})] = n
    return reason
"""


def _jump(target: str) -> list[str]:
    """Go to a core address, after checking it."""
    return [
        f"next = {target}",
        "off = u64(next - base)",
        "if (off & u64(3)) != u64(0) or (off >> 2) >= words:",
        f"    s[u64({state.DETAIL})] = next",
        f"    reason = {stop.JUMP}",
        "    break",
    ]


def _statement(record: rv.Scalar, names: Names) -> list[str]:
    """Lines of one operation; ``index`` still points at it."""
    second = "s64(s[t])" if any(field.name == "rs2" for field in record.fields) else "imm"
    pc = "(base + s64(index) * 4)"
    if record.kind == "alu":
        return [f"s[d] = {names.call(record.body, ['a', second])}"]
    if record.kind == "upper":
        return [f"s[d] = {names.call(record.body, [pc, 'imm'])}"]
    if record.kind in ("load", "store"):
        return _memory_access(record, names)
    if record.kind == "branch":
        taken = [*_jump(f"{pc} + imm"), "index = off >> 2", "n += 1", "continue"]
        return [f"if {names.call(record.body, ['a', second])}:", *(f"    {line}" for line in taken)]
    if record.kind in ("jal", "jalr"):
        target = names.call(record.body, [pc if record.kind == "jal" else "a", "imm"])
        return [*_jump(target), f"s[d] = {pc} + 4", "index = off >> 2", "n += 1", "continue"]
    if record.kind == "fence":
        return ["pass"]
    return [f"reason = {stop.CSR if record.kind == 'csr' else stop.SYSTEM}", "break"]


def _memory_access(record: rv.Scalar, names: Names) -> list[str]:
    """Lines of a load or store. Sizes pass through ``s64``: Numba compiles a function anew for literals."""
    size = record.width
    element = f"{'view_i64' if size == 8 else f'view_u{8 * size}'}(host, 1)[u64(0)]"
    lines = [
        f"host = host_address(s, a + imm, s64({size}))",
        "if host == 0:",
        f"    s[u64({state.DETAIL})] = a + imm",
        f"    s[u64({state.DETAIL} + 1)] = {size}",
        f"    s[u64({state.DETAIL} + 2)] = {int(record.kind == 'store')}",
        f"    reason = {stop.MEMORY}",
        "    break",
    ]
    if record.kind == "load":
        return [*lines, f"s[d] = {names.call(record.body, [f's64({element})'])}"]
    value = names.call(record.body, ["s64(s[t])"])
    return [*lines, f"{element} = {value}", f"note_store(s, host, s64({size}))"]


_USED = (
    view_i64, view_u8, view_u16, view_u32, view_u64, s64, u64, host_address, note_store, call_kernel,
)  # fmt: skip


def generate_run() -> Run:
    """Write the loop: a plain function of the state's address."""
    names = Names()
    names.scope.update({function.__name__: function for function in _USED})
    used = ("CODE", "CODE_BASE", "CODE_WORDS", "PC", "RETIRED", "LIMIT", "ISSUE")
    numbers: dict[str, Any] = {name: getattr(state, name) for name in used}
    numbers |= {"size": state.SIZE, "engine": ENGINE, "stop_limit": stop.LIMIT, "stop_illegal": stop.ILLEGAL}
    text = [_HEAD.format(**numbers)]
    for number, record in enumerate(rv.scalar_instructions()):
        text.append(f"        elif op == {FIRST_SCALAR + number}:\n")
        text += [f"            {line}\n" for line in _statement(record, names)]
    text.append(_TAIL.format(**numbers))
    return names.function("".join(text), "run")


def run_kernel() -> int:
    """Address of the compiled loop."""
    records = tuple((r.mnemonic, r.kind, r.width, r.body) for r in rv.scalar_instructions())
    constants = tuple(v for k, v in sorted({**vars(state), **vars(stop)}.items()) if k.isupper())
    meaning = (*records, *_USED, *constants, ENGINE, FIRST_SCALAR)
    return compile_generated(generate_run, meaning, "kernel core", 1)
