"""Issue, dependency check and execution of engine instructions, as plain functions that are compiled.

Every instruction gets an entry with the byte ranges it reads and writes; an engine works through its own
entries in order. In parallel mode an entry may overtake older ones of other engines when no range of theirs
meets one of its own, write against read, read against write or write against write (execution.md 4: byte
ranges, results up to the 256-byte line; proposed). In serial mode the oldest entry is always next. Entries
are executed as late as the queue depths allow, so a program that forgets a wait sees old data.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tx8isa.formats import STORAGE_BITS
from tx8isa.primitives import s64, u64

from . import state, stop, tables
from .native.memory import call_kernel, view_i64, view_u8, view_u32, view_u64

ENTRIES = 64
ENTRY = 64
HEAD = 32
NEXT, OLDEST, PENDING, TURN, COUNTS = 0, 1, 2, 3, 8
"""Words of the queue header: next and oldest sequence number, entries pending, whose turn, entries by engine."""
BUFFER = HEAD + ENTRIES * ENTRY
"""The entry an instruction is built in before it joins the queues."""
ARGUMENTS = BUFFER + ENTRY
"""Scratch for the arguments of an extent or rule."""
WORDS = ARGUMENTS + 16

Dispatch = Callable[[int, Any], int]
"""(number, arguments) -> result of that extent or rule; see ``tables.write_dispatcher``."""

E_LIVE, E_ENGINE, E_SLOT, E_RECORD, E_PC, E_RANGES, E_FIRST_RANGE = range(7)
RANGE_WORDS = 4
"""space, write, first byte, last byte."""
MAX_RANGES = 4
E_FIELDS = 24
FIELDS = BUFFER + E_FIELDS
MAX_FIELDS = ENTRY - E_FIELDS - 1
SPM_LINE = 256


def argument(word: int, q: Any) -> int:
    """The value of an argument word of the tables, for the entry in the buffer."""
    kind = word & 255
    if kind == tables.CONSTANT:
        return word >> 8
    index = u64((word >> 8) & 0xFFFFFFFF)
    value = s64(q[u64(FIELDS) + index])
    if kind == tables.VALUE:
        return value
    if kind == tables.LANE:
        return (value >> (word >> 40)) & 0xFFFF
    return STORAGE_BITS[value]


def gather_arguments(t: Any, first: int, count: int, q: Any) -> None:
    """Evaluate ``count`` argument words of the tables into the scratch of the queues."""
    for i in range(count):
        q[u64(ARGUMENTS + i)] = argument(s64(t[u64(first + i)]), q)


def operand_value(s: Any, t: Any, row: int, control: int, mask: int, position: int, at: int) -> int:
    """Value of one operand: from the control word, its words at host address ``at``, or a register."""
    words = s64(t[u64(row + tables.O_WORDS)])
    if words == 0:
        return (control >> s64(t[u64(row + tables.O_AT)])) & ((1 << s64(t[u64(row + tables.O_WIDTH)])) - 1)
    low = s64(view_u32(at, 1)[u64(0)])
    if (mask >> position) & 1:
        return s64(s[u64(state.X) + u64(low & 31)])
    return low if words == 1 else s64(view_u64(at, 1)[u64(0)])


def legal(t: Any, row: int, value: int) -> bool:
    """Whether a value that came from a register is one its operand allows."""
    choices = s64(t[u64(row + tables.O_CHOICES)])
    if choices != 0:
        return value >= 0 and value < 63 and (choices >> value) & 1 == 1
    high = s64(t[u64(row + tables.O_HIGH)])
    if high >= 0 and (value < s64(t[u64(row + tables.O_LOW)]) or value > high):
        return False
    lanes = s64(t[u64(row + tables.O_LANES)])
    if value == 0 and s64(t[u64(row + tables.O_ZERO_LANES)]) == 1:
        return True
    for lane in range(lanes):
        part = (value >> (16 * (lanes - 1 - lane))) & 0xFFFF
        at = u64(row + tables.O_LANE_BOUNDS + 2 * lane)
        if part < s64(t[at]) or part > s64(t[at + u64(1)]):
            return False
    return True


def fault(s: Any, reason: int, a: int, b: int, c: int, d: int) -> int:
    """Leave the explanation of a stop in the state."""
    s[u64(state.DETAIL)] = a
    s[u64(state.DETAIL + 1)] = b
    s[u64(state.DETAIL + 2)] = c
    s[u64(state.DETAIL + 3)] = d
    return reason


def read_operands(s: Any, t: Any, q: Any, record: int, host: int) -> int:
    """Fill the buffer's fields from the instruction at host address ``host``; -1 or a stop reason."""
    header = record * tables.HEADER
    rows = s64(t[u64(header + tables.OPERAND_ROWS)]) * tables.ROW
    mask = s64(view_u32(host + 4, 1)[u64(0)])
    control = s64(view_u32(host + 8, 1)[u64(0)])
    at = host + 12
    position = 0
    for i in range(s64(t[u64(header + tables.OPERANDS)])):
        row = rows + i * tables.ROW
        value = operand_value(s, t, row, control, mask, position, at)
        words = s64(t[u64(row + tables.O_WORDS)])
        if words != 0:
            if (mask >> position) & 1 and not legal(t, row, value):
                return fault(s, stop.VALUE, record, i, value, 0)
            at += 4 * words
            position += 1
        q[u64(FIELDS + i)] = value
    return -1


def check_rules(s: Any, t: Any, q: Any, record: int, rule_holds: Dispatch) -> int:
    """-1, or the stop reason of the first rule that does not hold."""
    header = record * tables.HEADER
    rows = s64(t[u64(header + tables.RULE_ROWS)]) * tables.ROW
    for i in range(s64(t[u64(header + tables.RULES)])):
        row = rows + i * tables.ROW
        gather_arguments(t, row + tables.U_ARGUMENTS, tables.ROW - tables.U_ARGUMENTS, q)
        if rule_holds(s64(t[u64(row + tables.U_RULE)]), q) == 0:
            return fault(s, stop.RULE, record, i, 0, 0)
    return -1


def find_ranges(s: Any, t: Any, q: Any, record: int, extent_length: Dispatch) -> int:
    """Compute, check and note the byte range of every address operand; DDR addresses become offsets."""
    header = record * tables.HEADER
    rows = s64(t[u64(header + tables.RANGE_ROWS)]) * tables.ROW
    found = 0
    for i in range(s64(t[u64(header + tables.RANGES)])):
        row = rows + i * tables.ROW
        gather_arguments(t, row + tables.R_ARGUMENTS, tables.ROW - tables.R_ARGUMENTS, q)
        length = extent_length(s64(t[u64(row + tables.R_EXTENT)]), q)
        if length == 0:
            continue
        operand = s64(t[u64(row + tables.R_OPERAND)])
        address = s64(q[u64(FIELDS + operand)])
        element = (argument(s64(t[u64(row + tables.R_ALIGN)]), q) + 7) >> 3
        if address & (element - 1) != 0:
            return fault(s, stop.ALIGNMENT, record, operand, address, element)
        space = s64(t[u64(row + tables.R_SPACE)])
        base = s64(s[u64(state.ENGINE_DDR)])
        if space == 2:
            space = 1 if address >= base else 0
        limit = s64(s[u64(state.SPM_BYTES)])
        first = address
        if space == 1:
            limit = s64(s[u64(state.DDR_BYTES)])
            first = address - base
            q[u64(FIELDS + operand)] = first
        if first < 0 or length < 0 or length > limit or first > limit - length:
            return fault(s, stop.RANGE, record, operand, address, length)
        at = u64(BUFFER + E_FIRST_RANGE + found * RANGE_WORDS)
        q[at] = space
        q[at + u64(1)] = s64(t[u64(row + tables.R_WRITE)])
        q[at + u64(2)] = first
        q[at + u64(3)] = first + length - 1
        found += 1
    q[u64(BUFFER + E_RANGES)] = found
    return -1


def kernel_slot(t: Any, q: Any, record: int) -> int:
    """The kernel variant: record, format, and whether the rounding mode is nearest even."""
    header = record * tables.HEADER
    slot = s64(t[u64(header + tables.SLOT)])
    position = s64(t[u64(header + tables.FORMAT)])
    if position >= 0:
        slot += s64(q[u64(FIELDS + position)])
    position = s64(t[u64(header + tables.ROUNDING)])
    if position >= 0 and s64(q[u64(FIELDS + position)]) != 0:
        slot += 16
    return slot


def prepare(
    s: Any, t: Any, q: Any, record: int, pc: int, extent_length: Dispatch, rule_holds: Dispatch
) -> int:
    """Build the entry of an instruction in the buffer; -1, or a stop reason."""
    host = s64(s[u64(state.DDR)]) + pc - s64(s[u64(state.CORE_DDR)])
    reason = read_operands(s, t, q, record, host)
    if reason < 0:
        reason = check_rules(s, t, q, record, rule_holds)
    if reason >= 0:
        return reason
    q[u64(BUFFER + E_RECORD)] = record
    q[u64(BUFFER + E_PC)] = pc
    q[u64(BUFFER + E_ENGINE)] = s64(t[u64(record * tables.HEADER + tables.ENGINE)])
    q[u64(BUFFER + E_SLOT)] = kernel_slot(t, q, record)
    reason = find_ranges(s, t, q, record, extent_length)
    if reason < 0 and s64(t[u64(record * tables.HEADER + tables.IS_CONTROL)]) == 1:
        return fault(s, stop.CONTROL, record, 0, 0, 0)
    return reason


def enqueue(q: Any) -> None:
    """Append the buffer's entry to the queues."""
    number = word(q, NEXT)
    at = u64(entry_at(number))
    for i in range(u64(ENTRY)):
        q[at + i] = s64(q[u64(BUFFER) + i])
    q[at + u64(E_LIVE)] = 1
    q[u64(NEXT)] = number + 1
    q[u64(PENDING)] = word(q, PENDING) + 1
    engine = u64(COUNTS + word(q, BUFFER + E_ENGINE))
    q[engine] = s64(q[engine]) + 1


def entry_at(number: int) -> int:
    """First word of the entry with a sequence number."""
    return HEAD + (number & (ENTRIES - 1)) * ENTRY


def word(q: Any, at: int) -> int:
    """One word of the queues."""
    return s64(q[u64(at)])


def meets(q: Any, x: int, y: int) -> bool:
    """Whether two ranges share bytes and one is written; a write reaches to the end of its line."""
    if word(q, x) != word(q, y) or word(q, x + 1) + word(q, y + 1) == 0:
        return False
    last_x = word(q, x + 3) | (SPM_LINE - 1) * word(q, x + 1)
    last_y = word(q, y + 3) | (SPM_LINE - 1) * word(q, y + 1)
    return word(q, x + 2) <= last_y and word(q, y + 2) <= last_x


def overlap(q: Any, a: int, b: int) -> bool:
    """Whether two entries conflict."""
    for i in range(word(q, a + E_RANGES)):
        for j in range(word(q, b + E_RANGES)):
            if meets(q, a + E_FIRST_RANGE + i * RANGE_WORDS, b + E_FIRST_RANGE + j * RANGE_WORDS):
                return True
    return False


def head_of(q: Any, engine: int) -> int:
    """Sequence number of an engine's oldest pending entry; -1 when it has none."""
    if word(q, COUNTS + engine) == 0:
        return -1
    for number in range(word(q, OLDEST), word(q, NEXT)):
        entry = entry_at(number)
        if word(q, entry + E_LIVE) == 1 and word(q, entry + E_ENGINE) == engine:
            return number
    return -1


def ready(q: Any, number: int) -> bool:
    """Whether no older pending entry conflicts with this one."""
    for older in range(word(q, OLDEST), number):
        if word(q, entry_at(older) + E_LIVE) == 1 and overlap(q, entry_at(number), entry_at(older)):
            return False
    return True


def choose(s: Any, q: Any) -> int:
    """Sequence number of the entry to execute next; the queues are not empty.

    Parallel mode goes round the engines, so that independent work really is reordered.
    """
    oldest = word(q, OLDEST)
    if s64(s[u64(state.SERIAL_MODE)]) == 1 or word(q, NEXT) - oldest >= ENTRIES - 1:
        return oldest
    turn = word(q, TURN)
    for step in range(5):
        engine = (turn + step) % 5
        number = head_of(q, engine)
        if number >= 0 and (number == oldest or ready(q, number)):
            q[u64(TURN)] = engine + 1
            return number
    return oldest


def execute(s: Any, q: Any, here: int, number: int) -> int:
    """Run one entry's kernel; -1, or ``stop.KERNEL`` when it is not compiled yet. ``here``: address of s."""
    entry = entry_at(number)
    slot = word(q, entry + E_SLOT)
    kernels = view_i64(s64(s[u64(state.KERNELS)]) + 16 * slot, 2)
    if s64(kernels[u64(0)]) == 0:
        return fault(s, stop.KERNEL, slot, 0, 0, 0)
    header = 8 * tables.HEADER * word(q, entry + E_RECORD)
    count = s64(view_i64(s64(s[u64(state.RECORDS)]) + header, tables.HEADER)[u64(tables.OPERANDS)])
    q[u64(entry + E_FIELDS + count)] = s64(kernels[u64(1)])
    call_kernel(s64(kernels[u64(0)]), s64(s[u64(state.QUEUE)]) + 8 * (entry + E_FIELDS), here)
    account(s, q, entry)
    retire(q, entry)
    return -1


def account(s: Any, q: Any, entry: int) -> None:
    """Count the instruction and its bytes, and mark the SPM lines it wrote."""
    counts = view_i64(s64(s[u64(state.COUNTS)]) + 32 * word(q, entry + E_RECORD), 4)
    counts[u64(0)] = s64(counts[u64(0)]) + 1
    for i in range(word(q, entry + E_RANGES)):
        at = entry + E_FIRST_RANGE + i * RANGE_WORDS
        first = word(q, at + 2)
        last = word(q, at + 3)
        write = word(q, at + 1)
        counts[u64(1 + write)] = s64(counts[u64(1 + write)]) + last - first + 1
        if write == 1 and word(q, at) == 0:
            mark_lines(s, first, last)


def mark_lines(s: Any, first: int, last: int) -> None:
    """Note that SPM bytes first..last were written."""
    begin = first >> 8
    count = (last >> 8) - begin + 1
    lines = view_u8(s64(s[u64(state.LINES)]) + begin, count)
    for i in range(u64(count)):
        lines[i] = 1


def retire(q: Any, entry: int) -> None:
    """Take an executed entry out of the queues."""
    q[u64(entry + E_LIVE)] = 0
    q[u64(PENDING)] = word(q, PENDING) - 1
    engine = u64(COUNTS + word(q, entry + E_ENGINE))
    q[engine] = s64(q[engine]) - 1
    oldest = word(q, OLDEST)
    while oldest < word(q, NEXT) and word(q, entry_at(oldest) + E_LIVE) == 0:
        oldest += 1
    q[u64(OLDEST)] = oldest


def make_room(s: Any, q: Any, here: int) -> int:
    """Execute until the queue of the newest entry is within its depth; -1 or a stop reason."""
    engine = word(q, BUFFER + E_ENGINE)
    depth = s64(s[u64(state.DEPTH + engine)])
    while word(q, COUNTS + engine) > depth or word(q, PENDING) >= ENTRIES - 2:
        reason = execute(s, q, here, choose(s, q))
        if reason >= 0:
            return reason
    return -1


def drain(s: Any, q: Any, here: int) -> int:
    """Execute everything that is queued; -1 or a stop reason."""
    while word(q, PENDING) > 0:
        reason = execute(s, q, here, choose(s, q))
        if reason >= 0:
            return reason
    return -1
