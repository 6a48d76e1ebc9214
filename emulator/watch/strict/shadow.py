"""The shadow of memory: last writer and last readers of every byte. Plain functions that are compiled.

``context`` is the address of the context (``shadow_words``). A granule whose bytes have the same writer and
readers has two words in the summary of its memory. A granule whose bytes differ has a separate block. Most
accesses of engines cover whole granules that have the same writer and readers as the granule before, which
costs very little.
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
    IN_DDR,
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
    SPACE,
    SPAN,
    SPAN_NUMBER,
    SPAN_OF,
    SPOILED,
    STORED,
    UNWRITTEN,
    WRITE,
    WRITE_READ,
    WRITE_WRITE,
)
from emulator.native.primitives.memory import get, put, view_u32
from tx8isa.numbers.primitives import s64, u64

from .access import access_at, found, happened, new_access, same_step, widen
from .caches import check_held

# -- readers -----------------------------------------------------------------------------------------------


def new_node(context: int, number: int, rest: int) -> int:
    """Return a list of readers: an access and the ``rest``, which is dropped when there is no room."""
    node = get(context, NODE_COUNT)
    if node >= MOST_NODES:
        put(context, FULL, 1)
        return number
    put(context, NODE_COUNT, node + 1)
    words = view_u32(get(context, NODES) + 8 * node, 2)
    words[u64(0)], words[u64(1)] = number, rest
    return LIST + node


def reader(context: int, readers: int) -> int:
    """Return the first reader of a list."""
    return (
        s64(view_u32(get(context, NODES) + 8 * (readers - LIST), 2)[u64(0)]) if readers >= LIST else readers
    )


def other_readers(context: int, readers: int) -> int:
    """Return the readers of a list after the first."""
    return s64(view_u32(get(context, NODES) + 8 * (readers - LIST), 2)[u64(1)]) if readers >= LIST else 0


def with_reader(context: int, readers: int) -> int:
    """Return the readers of a list and the current access, without those that happened before it."""
    rest, dropped = readers, 0
    while rest != 0:
        number = reader(context, rest)
        if number == get(context, NUMBER) or same_step(context, number):
            return readers
        if happened(context, number):
            dropped = 1
        rest = other_readers(context, rest)
    left = unordered_readers(context, readers) if dropped == 1 else readers
    return get(context, NUMBER) if left == 0 else new_node(context, get(context, NUMBER), left)


def unordered_readers(context: int, readers: int) -> int:
    """Return the readers of a list that did not happen before the current access."""
    rest, left = readers, 0
    while rest != 0:
        number = reader(context, rest)
        if not happened(context, number):
            left = number if left == 0 else new_node(context, number, left)
        rest = other_readers(context, rest)
    return left


def unordered_reader(context: int, readers: int) -> int:
    """Return the first reader of a list that did not happen before the current access, or 0."""
    rest = readers
    while rest != 0:
        number = reader(context, rest)
        if not happened(context, number):
            return number
        rest = other_readers(context, rest)
    return 0


# -- one byte ----------------------------------------------------------------------------------------------


def judge(context: int, writer: int, readers: int) -> None:
    """Find the shadow of a byte after the current access, and record a hazard."""
    put(context, SEEN_WRITER, writer)
    put(context, SEEN_READERS, readers)
    put(context, PAIR_WRITER, 0)
    put(context, PAIR_READERS, 0)
    write, data = get(context, WRITE), writer
    if writer != 0 and get(access_at(context, writer), A_AGENT) == SPAN:
        data = get(access_at(context, writer), A_CLOCK)
        if write == 0 and get(context, IN_PLACE) == 0:
            put(context, PAIR_READERS, found(context, SPOILED, get(access_at(context, writer), A_WHAT)))
    if data != 0 and not happened(context, data):
        put(context, PAIR_WRITER, found(context, WRITE_WRITE if write == 1 else READ_WRITE, data))
    elif data == 0 and write == 0:
        put(context, PAIR_WRITER, found(context, UNWRITTEN, 0))
    if write == 0:
        put(context, NEXT_WRITER, writer)
        put(context, NEXT_READERS, with_reader(context, readers))
        return
    other = unordered_reader(context, readers)
    if other != 0:
        put(context, PAIR_READERS, found(context, WRITE_READ, other))
    put(context, NEXT_WRITER, get(context, NUMBER))
    if data != writer and get(context, IN_PLACE) != 0:
        number = new_access(context, SPAN, get(context, NUMBER), 0, get(access_at(context, writer), A_WHAT))
        put(context, NEXT_WRITER, number if number != 0 else get(context, NUMBER))
    put(context, NEXT_READERS, 0)


def look(context: int, writer: int, readers: int, first: int, last: int) -> None:
    """``judge`` bytes with one shadow, unless bytes with this shadow were judged just before."""
    if writer != get(context, SEEN_WRITER) or readers != get(context, SEEN_READERS):
        judge(context, writer, readers)
    if get(context, PAIR_WRITER) + get(context, PAIR_READERS) != 0:
        widen(get(context, PAIR_WRITER), first, last)
        widen(get(context, PAIR_READERS), first, last)


# -- ranges ------------------------------------------------------------------------------------------------


def open_block(context: int, writer: int, readers: int) -> int:
    """Return the number of a block whose bytes all have this shadow; -1 when there is no room."""
    block = get(context, FREE)
    if block != 0:
        put(context, FREE, s64(view_u32(get(context, BLOCKS) + BLOCK_BYTES * block, 1)[u64(0)]))
    else:
        block = get(context, BLOCK_COUNT)
        if block >= MOST_BLOCKS:
            put(context, FULL, 1)
            return -1
        put(context, BLOCK_COUNT, block + 1)
    writers = view_u32(get(context, BLOCKS) + BLOCK_BYTES * block, GRANULE)
    all_readers = view_u32(get(context, BLOCKS) + BLOCK_BYTES * block + 4 * GRANULE, GRANULE)
    for i in range(u64(GRANULE)):
        writers[i] = writer
        all_readers[i] = readers
    return block


def close_block(context: int, block: int) -> None:
    """Give a block back."""
    view_u32(get(context, BLOCKS) + BLOCK_BYTES * block, 1)[u64(0)] = get(context, FREE)
    put(context, FREE, block)


def written_now(context: int, block: int) -> bool:
    """Return True if the current access has written every byte of a block."""
    writers = view_u32(get(context, BLOCKS) + BLOCK_BYTES * block, GRANULE)
    others = 0
    for i in range(u64(GRANULE)):
        others += 1 if s64(writers[i]) != get(context, NUMBER) else 0
    return others == 0


def touch_bytes(context: int, block: int, begin: int, count: int, address: int) -> None:
    """Access some bytes of a block."""
    writers = view_u32(get(context, BLOCKS) + BLOCK_BYTES * block, GRANULE)
    readers = view_u32(get(context, BLOCKS) + BLOCK_BYTES * block + 4 * GRANULE, GRANULE)
    for k in range(count):
        i = u64(begin + k)
        look(context, s64(writers[i]), s64(readers[i]), address + k, address + k)
        writers[i] = get(context, NEXT_WRITER)
        readers[i] = get(context, NEXT_READERS)


def touch_part(context: int, granule: int, begin: int, count: int, address: int) -> None:
    """Access some bytes of the granule whose summary is at ``granule``, or all bytes of a mixed granule."""
    summary = view_u32(granule, 2)
    writer, readers = s64(summary[u64(0)]), s64(summary[u64(1)])
    if writer < MIXED:
        look(context, writer, readers, address, address + count - 1)
        if get(context, NEXT_WRITER) == writer and get(context, NEXT_READERS) == readers:
            return
        block = open_block(context, writer, readers)
        if block < 0:
            return
        summary[u64(0)] = MIXED + block
    else:
        block = writer - MIXED
    touch_bytes(context, block, begin, count, address)
    if count == GRANULE and get(context, WRITE) == 1:
        if get(context, IN_PLACE) != 0 and not written_now(context, block):
            return
        close_block(context, block)
        summary[u64(0)] = get(context, NUMBER)
        summary[u64(1)] = 0


def touch(context: int, shadow: int, first: int, count: int) -> None:
    """Access consecutive bytes of the memory whose summary is at ``shadow``."""
    if get(context, STORED) != 0 and get(context, SPACE) == IN_DDR:
        check_held(context, shadow, first, count)
    at, end = first, first + count
    while at < end:
        begin = at & (GRANULE - 1)
        part = min(GRANULE - begin, end - at)
        granule = shadow + 8 * (at >> GRANULE_SHIFT)
        summary = view_u32(granule, 2)
        if part == GRANULE and s64(summary[u64(0)]) < MIXED:
            look(context, s64(summary[u64(0)]), s64(summary[u64(1)]), at, at + GRANULE - 1)
            summary[u64(0)] = get(context, NEXT_WRITER)
            summary[u64(1)] = get(context, NEXT_READERS)
        else:
            touch_part(context, granule, begin, part, at)
        at += part


def touch_nest(context: int, shadow: int, first: int, at: int, loops: int) -> None:
    """Access the pieces of nested loops.

    The loops at ``at`` are the bytes of a piece, then stride and trips of each loop. Innermost loops without
    gaps count as one piece.
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
        touch(context, shadow, place, count)


# -- spans -------------------------------------------------------------------------------------------------


def spanned(context: int, writer: int) -> int:
    """Return the writer in the shadow of a byte that follows a result of the current access."""
    if writer == 0 or get(access_at(context, writer), A_AGENT) == SPAN:
        return writer
    if get(context, SPAN_OF) != writer:
        put(context, SPAN_OF, writer)
        put(context, SPAN_NUMBER, new_access(context, SPAN, writer, 0, get(context, NUMBER)))
    return get(context, SPAN_NUMBER) if get(context, SPAN_NUMBER) != 0 else writer


def spoil(context: int, shadow: int, first: int, end: int) -> None:
    """Record that an instruction may overwrite the bytes after its result."""
    put(context, SPAN_OF, 0)
    at = first
    while at < end:
        begin = at & (GRANULE - 1)
        part = min(GRANULE - begin, end - at)
        summary = view_u32(shadow + 8 * (at >> GRANULE_SHIFT), 2)
        writer = s64(summary[u64(0)])
        if writer < MIXED:
            changed = spanned(context, writer)
            block = -1
            if changed != writer and part == GRANULE:
                summary[u64(0)] = changed
            elif changed != writer:
                block = open_block(context, writer, s64(summary[u64(1)]))
                if block >= 0:
                    summary[u64(0)] = MIXED + block
        else:
            block = writer - MIXED
        if block >= 0:
            writers = view_u32(get(context, BLOCKS) + BLOCK_BYTES * block, GRANULE)
            for k in range(part):
                writers[u64(begin + k)] = spanned(context, s64(writers[u64(begin + k)]))
        at += part
