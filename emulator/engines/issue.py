"""Issue of an engine instruction: operands, rules and byte ranges, as plain functions that are compiled.

The entry is built at its place in the queues. Values come from the loaded program text, which was checked
when it was predecoded, and from registers, whose values are checked here. For packets, ``tile/ncc.py`` has
already put checked values into the entry. Accepted values keep every extent and product below 2**63
(``tables.checks``).

``s`` is the address of the tile's state, ``t`` that of the records' tables, ``q`` that of a worker's queues;
``fields`` and ``entry`` are positions in the queues.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from emulator.memory import state, stop
from emulator.native import compile_generated
from emulator.native.primitives.memory import get, put, view_u32, view_u64
from tx8isa.numbers.formats import STORAGE_BITS
from tx8isa.numbers.layouts import LINE_BYTES
from tx8isa.numbers.primitives import s64, u64
from tx8isa.table.packets import SC_PARAM, WRITE_BACK

from . import queues, tables
from .hooks import notify
from .packets import PLACE
from .queues import advance, enqueue, entry_at, execute_early, fault, make_room, run_entry

# Commands of the issue function
TEXT = 0  # issue the instruction at the program counter
CHECK = 1  # check the one whose operands are in the entry being built
TAKE = 2  # put that checked instruction into its queue
DRAIN = 3  # execute all entries of a worker
STEP = 4  # execute one entry of a worker

# Bits of its command: the record number, then these
_WORKER = tables.WORKER_SHIFT
_KIND = _WORKER + 4

_SCALAR_RESULT = (SC_PARAM.field("dst").register - WRITE_BACK[0].register) // PLACE
"""Words from the write-back registers to SCALAR's result register."""
Dispatch = Callable[[int, int], int]
"""(number, queues) -> result of the extent or rule with this number; see ``tables.write_dispatcher``."""


def gather_arguments(t: int, first: int, count: int, q: int, fields: int) -> None:
    """Evaluate ``count`` argument words of the tables into the scratch of the queues."""
    for i in range(count):
        source = get(t, first + i)
        kind = source & 255
        value = source >> 8
        if kind != tables.CONSTANT:
            value = get(q, fields + (value & 0xFFFFFFFF))
            if kind == tables.LANE:
                value = (value >> (source >> 40)) & 0xFFFF
            elif kind == tables.BITS:
                value = STORAGE_BITS[value]
            elif kind == tables.CHOSEN:
                value = get(t, (source >> 40) + value)
        put(q, queues.ARGUMENTS + i, value)


def legal(t: int, row: int, value: int) -> bool:
    """Return True if an operand allows a value from a register."""
    choices = get(t, row + tables.O_CHOICES)
    if choices != 0:
        return value >= 0 and value < 63 and (choices >> value) & 1 == 1
    high = get(t, row + tables.O_HIGH)
    if high >= 0 and (value < get(t, row + tables.O_LOW) or value > high):
        return False
    lanes = get(t, row + tables.O_LANES)
    if value == 0 and get(t, row + tables.O_ZERO_LANES) == 1:
        return True
    for lane in range(lanes):
        part = (value >> (16 * (lanes - 1 - lane))) & 0xFFFF
        at = row + tables.O_LANE_BOUNDS + 2 * lane
        if part < get(t, at) or part > get(t, at + 1):
            return False
    return True


def from_register(t: int, row: int, value: int) -> int:
    """Return an operand's value from a register; undoes the sign extension of a scalar by lw and fmv.x.w."""
    scalar = get(t, row + tables.O_LANES) == 0 and get(t, row + tables.O_SCALAR) == 1
    return value & 0xFFFFFFFF if scalar and value >= -(1 << 31) and value < 0 else value


def read_operands(s: int, t: int, q: int, record: int, fields: int) -> int:
    """Fill the entry's fields from the instruction at the program counter; return -1 or a stop reason."""
    header = record * tables.HEADER
    at = get(s, state.TEXT) + get(s, state.PC) - get(s, state.CODE_BASE)
    mask = s64(view_u32(at + 4, 1)[u64(0)])
    control = s64(view_u32(at + 8, 1)[u64(0)])
    at += 12
    row = get(t, header + tables.OPERAND_ROWS) * tables.ROW
    for i in range(get(t, header + tables.OPERANDS)):
        words = get(t, row + tables.O_WORDS)
        if words == 0:
            value = (control >> get(t, row + tables.O_AT)) & get(t, row + tables.O_MASK)
            put(q, fields + i, value)
        else:
            value = s64(view_u32(at, 1)[u64(0)])
            if mask & 1 != 0:
                value = from_register(t, row, get(s, value & 31))
                put(q, fields + i, value)
                if not legal(t, row, value):
                    return fault(s, stop.VALUE, record, i, value, 0)
            elif words == 2:
                value = s64(view_u64(at, 1)[u64(0)])
            put(q, fields + i, value)
            at += 4 * words
            mask >>= 1
        row += tables.ROW
    return -1


def check_rules(s: int, t: int, q: int, record: int, fields: int, rule_holds: Dispatch) -> int:
    """Return -1, or the stop reason of the first violated rule."""
    header = record * tables.HEADER
    row = get(t, header + tables.RULE_ROWS) * tables.ROW
    for i in range(get(t, header + tables.RULES)):
        gather_arguments(t, row + tables.U_ARGUMENTS, get(t, row + tables.U_COUNT), q, fields)
        if rule_holds(get(t, row + tables.U_RULE), q) == 0:
            return fault(s, stop.RULE, record, i, 0, 0)
        row += tables.ROW
    return -1


def find_ranges(s: int, t: int, q: int, record: int, entry: int, extent_length: Dispatch) -> int:
    """Compute, check and store the byte range of every address operand; DDR addresses become offsets."""
    header = record * tables.HEADER
    fields = entry + queues.E_FIELDS
    row = get(t, header + tables.RANGE_ROWS) * tables.ROW
    at = entry + queues.E_FIRST_RANGE
    found, length, element = 0, 0, 0
    for _ in range(get(t, header + tables.RANGES)):
        if get(t, row + tables.R_AGAIN) == 0:
            gather_arguments(t, row + tables.R_ARGUMENTS, get(t, row + tables.R_COUNT), q, fields)
            length = extent_length(get(t, row + tables.R_EXTENT), q)
            gather_arguments(t, row + tables.R_ALIGN, 1, q, fields)
            element = (get(q, queues.ARGUMENTS) + 7) >> 3
        if length != 0:
            operand = get(t, row + tables.R_OPERAND)
            address = get(q, fields + operand)
            if address & (element - 1) != 0:
                return fault(s, stop.ALIGNMENT, record, operand, address, element)
            space = get(t, row + tables.R_SPACE)
            base = get(s, state.ENGINE_DDR)
            first, limit, origin = address, get(s, state.SPM_BYTES), 0
            if space == tables.DDR or (space == tables.ANY and address >= base):
                first, limit, origin = address - base, get(s, state.DDR_BYTES), queues.DDR
                put(q, fields + operand, first)
            if first < 0 or length < 0 or length > limit or first > limit - length:
                return fault(s, stop.RANGE, record, operand, address, length)
            write = get(t, row + tables.R_WRITE)
            put(q, at + queues.R_FIRST, origin + first)
            put(q, at + queues.R_REACH, origin + (first + length - 1 | (LINE_BYTES - 1) * write))
            put(q, at + queues.R_WRITE, write)
            put(q, at + queues.R_BYTES, length)
            at += queues.RANGE_WORDS
            found += 1
        row += tables.ROW
    put(q, entry + queues.E_RANGES, found)
    return -1


def note_kernel(t: int, q: int, record: int, entry: int) -> None:
    """Store the kernel variant in the entry: record, format, and rounding mode nearest even or not."""
    header = record * tables.HEADER
    slot = get(t, header + tables.SLOT)
    position = get(t, header + tables.FORMAT)
    if position >= 0:
        slot += get(q, entry + queues.E_FIELDS + position)
    position = get(t, header + tables.ROUNDING)
    if position >= 0 and get(q, entry + queues.E_FIELDS + position) != 0:
        slot += tables.ROUNDED
    put(q, entry + queues.E_SLOT, slot)
    put(q, entry + queues.E_RECORD, record)
    put(q, entry + queues.E_ENGINE, get(t, header + tables.ENGINE))
    if get(t, header + tables.RETURNS) == 1:
        put(get(q, queues.RETURNED), 0, 0)
        put(get(q, queues.RETURNED), 1, 0)


def take(s: int, t: int, q: int, record: int, entry: int, engine: int) -> int:
    """Put the checked entry into its queue, or execute an instruction of SCALAR at once.

    ``stop.CONTROL`` for other instructions.
    """
    if engine > queues.ENGINES:
        return fault(s, stop.CONTROL, record, 0, 0, 0)
    note_kernel(t, q, record, entry)
    put(q, entry + queues.E_PC, get(s, state.PC))
    reason = -1
    if engine == queues.ENGINES:
        reason = run_entry(s, q, get(q, queues.NEXT), engine)
        if reason != stop.KERNEL:
            put(get(q, queues.RETURNED), _SCALAR_RESULT, get(s, state.ANSWER))
    else:
        enqueue(q, engine)
    if reason < 0:
        notify(s, q + 8 * entry)
        if get(s, state.ORDER) != 0:
            execute_early(s, q)
    return reason


def check_entry(
    s: int, t: int, q: int, record: int, entry: int, extent_length: Dispatch, rule_holds: Dispatch
) -> int:
    """Check rules and ranges of the entry being built; return -1 or a stop reason."""
    reason = -1
    if get(t, record * tables.HEADER + tables.RULES) != 0:
        reason = check_rules(s, t, q, record, entry + queues.E_FIELDS, rule_holds)
    if reason < 0:
        reason = find_ranges(s, t, q, record, entry, extent_length)
    return reason


def work_off(s: int, q: int, once: bool) -> int:
    """Execute all entries of the worker, or ``once`` one of them; return -1 or a stop reason."""
    while get(q, queues.PENDING) > 0:
        reason = advance(s, q)
        if reason >= 0 or once:
            return reason
    return -1


def _make_issue(extent_length: Dispatch, rule_holds: Dispatch, ncc_wait: int) -> Callable[[int, int], int]:
    """Make the function (command, state address) that issues an engine instruction (``generate_issue``)."""

    def issue(command: int, s: int) -> int:
        record = command & ((1 << _WORKER) - 1)
        worker, kind = (command >> _WORKER) & 15, command >> _KIND
        q = get(s, state.QUEUE) + 8 * queues.WORDS * worker
        if worker >= get(s, state.WORKERS):
            return fault(s, stop.WORKER, worker, get(s, state.WORKERS), 0, 0)
        if kind >= DRAIN or record == ncc_wait:
            reason = work_off(s, q, kind == STEP)
            if reason < 0 and kind == TEXT:
                counts = get(s, state.COUNTS) + 32 * record
                put(counts, 0, get(counts, 0) + 1)
                notify(s, worker)
            return reason
        if worker != 0:
            put(s, state.SEVERAL, 1)
        put(s, state.WORKER, worker)
        t, entry = get(s, state.RECORDS), entry_at(get(q, queues.NEXT))
        engine = get(t, record * tables.HEADER + tables.ENGINE)
        if kind == TAKE:
            return take(s, t, q, record, entry, engine)
        reason = make_room(s, q, engine) if engine < queues.ENGINES else -1
        if reason < 0 and kind == TEXT:
            reason = read_operands(s, t, q, record, entry + queues.E_FIELDS)
        if reason < 0:
            reason = check_entry(s, t, q, record, entry, extent_length, rule_holds)
        if reason >= 0 or kind == CHECK:
            return reason
        return take(s, t, q, record, entry, engine)

    return issue


def generate_issue() -> Callable[[int, int], int]:
    """Write the function (command, state address) that issues an engine instruction.

    ``command`` makes the first argument. The result is -1, or a stop reason with the instruction not issued.
    """
    extent_length = tables.write_dispatcher(tables.extents(), queues.ARGUMENTS)
    rule_holds = tables.write_dispatcher(tables.rules(), queues.ARGUMENTS)
    return _make_issue(extent_length, rule_holds, tables.numbers()["ncc.wait"])


@cache
def _unwritten() -> Callable[[int, int], int]:
    """Return the issue function without its dispatchers, which is the rest of its key in the cache."""

    def dispatch(number: int, q: int) -> int:
        return 0

    return _make_issue(dispatch, dispatch, tables.numbers()["ncc.wait"])


def issue_kernel() -> int:
    """Return the address of the compiled issue function."""
    meaning = (*tables.extents(), *tables.rules(), _unwritten())
    return compile_generated(generate_issue, meaning, "engine issue", 2)


def command(kind: int, worker: int, record: int = 0) -> int:
    """Return the first argument of the issue function."""
    return record | worker << _WORKER | kind << _KIND
