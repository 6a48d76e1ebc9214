"""The shadow of memory, as plain functions that are compiled: last writer and last readers of every byte.

``c`` is the address of the context (``layout``). A granule whose bytes have the same past has two words in
the summary of its memory; one whose bytes differ has a block of its own. Most accesses of engines cover whole
granules, whose past was met just before: that costs nearly nothing.
"""

from __future__ import annotations

from emulator.memory.shadow_words import (
    A_AGENT,
    A_CLOCK,
    A_WHAT,
    BLOCK_BYTES,
    BLOCK_COUNT,
    BLOCKS,
    FREE,
    FULL,
    GRANULE,
    GRANULE_SHIFT,
    IN_PLACE,
    LIST,
    MIXED,
    MOST_BLOCKS,
    MOST_NODES,
    NEXT_READERS,
    NEXT_WRITER,
    NODE_COUNT,
    NODES,
    NUMBER,
    PAIR_READERS,
    PAIR_WRITER,
    READ_WRITE,
    SEEN_READERS,
    SEEN_WRITER,
    SPAN,
    SPAN_NUMBER,
    SPAN_OF,
    SPOILED,
    UNWRITTEN,
    WRITE,
    WRITE_READ,
    WRITE_WRITE,
)
from emulator.native.primitives.memory import get, put, view_u32
from tx8isa.numbers.primitives import s64, u64

from .access import access_at, found, happened, new_access, same_step, widen

# -- readers -----------------------------------------------------------------------------------------------


def new_node(c: int, number: int, rest: int) -> int:
    """Readers: an access, and others; the others are forgotten when there is no room."""
    node = get(c, NODE_COUNT)
    if node >= MOST_NODES:
        put(c, FULL, 1)
        return number
    put(c, NODE_COUNT, node + 1)
    words = view_u32(get(c, NODES) + 8 * node, 2)
    words[u64(0)], words[u64(1)] = number, rest
    return LIST + node


def reader(c: int, readers: int) -> int:
    """The first of some readers."""
    return s64(view_u32(get(c, NODES) + 8 * (readers - LIST), 2)[u64(0)]) if readers >= LIST else readers


def other_readers(c: int, readers: int) -> int:
    """The readers behind the first."""
    return s64(view_u32(get(c, NODES) + 8 * (readers - LIST), 2)[u64(1)]) if readers >= LIST else 0


def with_reader(c: int, readers: int) -> int:
    """The readers and the access at hand, without those that come before it."""
    rest, dropped = readers, 0
    while rest != 0:
        number = reader(c, rest)
        if number == get(c, NUMBER) or same_step(c, number):
            return readers
        if happened(c, number):
            dropped = 1
        rest = other_readers(c, rest)
    left = unordered_readers(c, readers) if dropped == 1 else readers
    return get(c, NUMBER) if left == 0 else new_node(c, get(c, NUMBER), left)


def unordered_readers(c: int, readers: int) -> int:
    """Those of some readers that do not come before the access at hand."""
    rest, left = readers, 0
    while rest != 0:
        number = reader(c, rest)
        if not happened(c, number):
            left = number if left == 0 else new_node(c, number, left)
        rest = other_readers(c, rest)
    return left


def unordered_reader(c: int, readers: int) -> int:
    """The first of some readers that does not come before the access at hand, or 0."""
    rest = readers
    while rest != 0:
        number = reader(c, rest)
        if not happened(c, number):
            return number
        rest = other_readers(c, rest)
    return 0


# -- one byte ----------------------------------------------------------------------------------------------


def judge(c: int, writer: int, readers: int) -> None:
    """What becomes of a byte's shadow through the access at hand, and whether that is a hazard."""
    put(c, SEEN_WRITER, writer)
    put(c, SEEN_READERS, readers)
    put(c, PAIR_WRITER, 0)
    put(c, PAIR_READERS, 0)
    write, data = get(c, WRITE), writer
    if writer != 0 and get(access_at(c, writer), A_AGENT) == SPAN:
        data = get(access_at(c, writer), A_CLOCK)
        if write == 0 and get(c, IN_PLACE) == 0:
            put(c, PAIR_READERS, found(c, SPOILED, get(access_at(c, writer), A_WHAT)))
    if data != 0 and not happened(c, data):
        put(c, PAIR_WRITER, found(c, WRITE_WRITE if write == 1 else READ_WRITE, data))
    elif data == 0 and write == 0:
        put(c, PAIR_WRITER, found(c, UNWRITTEN, 0))
    if write == 0:
        put(c, NEXT_WRITER, writer)
        put(c, NEXT_READERS, with_reader(c, readers))
        return
    other = unordered_reader(c, readers)
    if other != 0:
        put(c, PAIR_READERS, found(c, WRITE_READ, other))
    put(c, NEXT_WRITER, get(c, NUMBER))
    if data != writer and get(c, IN_PLACE) != 0:
        number = new_access(c, SPAN, get(c, NUMBER), 0, get(access_at(c, writer), A_WHAT))
        put(c, NEXT_WRITER, number if number != 0 else get(c, NUMBER))
    put(c, NEXT_READERS, 0)


def look(c: int, writer: int, readers: int, first: int, last: int) -> None:
    """``judge`` bytes whose shadow is the same, unless just those were judged before."""
    if writer != get(c, SEEN_WRITER) or readers != get(c, SEEN_READERS):
        judge(c, writer, readers)
    if get(c, PAIR_WRITER) + get(c, PAIR_READERS) != 0:
        widen(get(c, PAIR_WRITER), first, last)
        widen(get(c, PAIR_READERS), first, last)


def writer_of(c: int, shadow: int, at: int) -> int:
    """The access that wrote a byte last, or 0."""
    writer = s64(view_u32(shadow + 8 * (at >> GRANULE_SHIFT), 1)[u64(0)])
    if writer >= MIXED:
        block = get(c, BLOCKS) + BLOCK_BYTES * (writer - MIXED)
        writer = s64(view_u32(block + 4 * (at & (GRANULE - 1)), 1)[u64(0)])
    return writer


# -- ranges ------------------------------------------------------------------------------------------------


def open_block(c: int, writer: int, readers: int) -> int:
    """Number of a block whose bytes all have this shadow; -1 when there is no room."""
    block = get(c, FREE)
    if block != 0:
        put(c, FREE, s64(view_u32(get(c, BLOCKS) + BLOCK_BYTES * block, 1)[u64(0)]))
    else:
        block = get(c, BLOCK_COUNT)
        if block >= MOST_BLOCKS:
            put(c, FULL, 1)
            return -1
        put(c, BLOCK_COUNT, block + 1)
    writers = view_u32(get(c, BLOCKS) + BLOCK_BYTES * block, GRANULE)
    all_readers = view_u32(get(c, BLOCKS) + BLOCK_BYTES * block + 4 * GRANULE, GRANULE)
    for i in range(u64(GRANULE)):
        writers[i] = writer
        all_readers[i] = readers
    return block


def close_block(c: int, block: int) -> None:
    """Give a block back."""
    view_u32(get(c, BLOCKS) + BLOCK_BYTES * block, 1)[u64(0)] = get(c, FREE)
    put(c, FREE, block)


def written_now(c: int, block: int) -> bool:
    """Whether the access at hand has written every byte of a block."""
    writers = view_u32(get(c, BLOCKS) + BLOCK_BYTES * block, GRANULE)
    others = 0
    for i in range(u64(GRANULE)):
        others += 1 if s64(writers[i]) != get(c, NUMBER) else 0
    return others == 0


def touch_bytes(c: int, block: int, begin: int, count: int, address: int) -> None:
    """Access some bytes of a block."""
    writers = view_u32(get(c, BLOCKS) + BLOCK_BYTES * block, GRANULE)
    readers = view_u32(get(c, BLOCKS) + BLOCK_BYTES * block + 4 * GRANULE, GRANULE)
    for k in range(count):
        i = u64(begin + k)
        look(c, s64(writers[i]), s64(readers[i]), address + k, address + k)
        writers[i] = get(c, NEXT_WRITER)
        readers[i] = get(c, NEXT_READERS)


def touch_part(c: int, granule: int, begin: int, count: int, address: int) -> None:
    """Access some bytes of a granule, whose summary is at ``granule``, or a whole one that is mixed."""
    summary = view_u32(granule, 2)
    writer, readers = s64(summary[u64(0)]), s64(summary[u64(1)])
    if writer < MIXED:
        look(c, writer, readers, address, address + count - 1)
        if get(c, NEXT_WRITER) == writer and get(c, NEXT_READERS) == readers:
            return
        block = open_block(c, writer, readers)
        if block < 0:
            return
        summary[u64(0)] = MIXED + block
    else:
        block = writer - MIXED
    touch_bytes(c, block, begin, count, address)
    if count == GRANULE and get(c, WRITE) == 1:
        if get(c, IN_PLACE) != 0 and not written_now(c, block):
            return
        close_block(c, block)
        summary[u64(0)] = get(c, NUMBER)
        summary[u64(1)] = 0


def touch(c: int, shadow: int, first: int, count: int) -> None:
    """Access consecutive bytes of the memory whose summary is at ``shadow``."""
    at, end = first, first + count
    while at < end:
        begin = at & (GRANULE - 1)
        part = min(GRANULE - begin, end - at)
        granule = shadow + 8 * (at >> GRANULE_SHIFT)
        summary = view_u32(granule, 2)
        if part == GRANULE and s64(summary[u64(0)]) < MIXED:
            look(c, s64(summary[u64(0)]), s64(summary[u64(1)]), at, at + GRANULE - 1)
            summary[u64(0)] = get(c, NEXT_WRITER)
            summary[u64(1)] = get(c, NEXT_READERS)
        else:
            touch_part(c, granule, begin, part, at)
        at += part


def touch_nest(c: int, shadow: int, first: int, at: int, loops: int) -> None:
    """Access the pieces of nested loops; at ``at`` stand the bytes of a piece, then stride and trips of each.

    Innermost loops whose pieces touch each other are one piece.
    """
    count, inner = get(at, 0), 0
    while inner < loops and (get(at, 2 + 2 * inner) == 1 or get(at, 1 + 2 * inner) == count):
        count *= get(at, 2 + 2 * inner)
        inner += 1
    total = 1
    for level in range(inner, loops):
        total *= get(at, 2 + 2 * level)
    if count <= 0:
        return
    for k in range(total):
        rest, place = k, first
        for level in range(inner, loops):
            trips = get(at, 2 + 2 * level)
            place += rest % trips * get(at, 1 + 2 * level)
            rest = rest // trips
        touch(c, shadow, place, count)


# -- spans -------------------------------------------------------------------------------------------------


def spanned(c: int, writer: int) -> int:
    """The shadow of a byte with this writer that lies behind a result of the access at hand."""
    if writer == 0 or get(access_at(c, writer), A_AGENT) == SPAN:
        return writer
    if get(c, SPAN_OF) != writer:
        put(c, SPAN_OF, writer)
        put(c, SPAN_NUMBER, new_access(c, SPAN, writer, 0, get(c, NUMBER)))
    return get(c, SPAN_NUMBER) if get(c, SPAN_NUMBER) != 0 else writer


def spoil(c: int, shadow: int, first: int, end: int) -> None:
    """Note that an instruction may overwrite what lies behind its result."""
    put(c, SPAN_OF, 0)
    at = first
    while at < end:
        begin = at & (GRANULE - 1)
        part = min(GRANULE - begin, end - at)
        summary = view_u32(shadow + 8 * (at >> GRANULE_SHIFT), 2)
        writer = s64(summary[u64(0)])
        if writer < MIXED:
            changed = spanned(c, writer)
            block = -1
            if changed != writer and part == GRANULE:
                summary[u64(0)] = changed
            elif changed != writer:
                block = open_block(c, writer, s64(summary[u64(1)]))
                if block >= 0:
                    summary[u64(0)] = MIXED + block
        else:
            block = writer - MIXED
        if block >= 0:
            writers = view_u32(get(c, BLOCKS) + BLOCK_BYTES * block, GRANULE)
            for k in range(part):
                writers[u64(begin + k)] = spanned(c, s64(writers[u64(begin + k)]))
        at += part
