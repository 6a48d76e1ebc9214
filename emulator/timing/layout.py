"""The words that simulated time works on: rows of the tiles' logs, and the state of the simulation.

A log is what a tile did, in the order of its program; rows have the length that their first word says. The
simulation's state is one int64 array for the whole chip. Places are word numbers: those of the header count
from the array's start, ``P_*`` from the start of a tile, ``W_*`` of a worker, ``S_*`` of an instruction in
flight, ``M_*`` of a copy between tiles on its way. All times are ticks.
"""

from __future__ import annotations

from emulator.engines import queues

from .slices import MOST_RANGES as MOST_RANGES

HUGE = 1 << 62
"""A time that never comes."""

# -- the head of a tile's log, a row of an array of the tiles, that ``state.TIMING`` points to
T_LOG, T_AT, T_SIZE, T_FULL, T_SKIPPED, T_COSTS, T_JOIN, T_DROPPED = range(8)
"""Host address of the rows, words used, words there are; the limit of the time slice that a full log has
interrupted, or 0; instructions that do not count because they only polled; host address of the costs; ticks
of ``ncc.wait``; words that were worked off."""
T_WORDS = 8
LOG_WORDS = 1 << 21
"""Words of a log: 16 MiB, of which memory is used as far as it is filled."""
LOG_MARGIN = 1 << 14
"""Words that one instruction at most fills: a copy to all tiles, a read of all streams."""

# -- rows of a log
ENGINE, WAIT, SEEN, RESULT, COPY, UPDATE, AWAIT, ARRIVAL, BARRIER, READ, PROGRESS, EXIT = range(12)
"""Kinds of a row: an engine instruction; ``ncc.wait``; a worker seen idle; a result of a worker's CT
instruction seen in its register; a copy to one target; a packet counter update; a wait for copies; an arrival
seen; a barrier; time was read; nothing but instructions of the core; the end of the program."""
L_KIND, L_RETIRED, L_PC, L_WORKER = range(4)
"""First words of a row: ``kind | words << 8``; instructions before this one, pc, worker."""
LENGTH_SHIFT = 8
L_RECORD, L_ENGINE, L_FIXED, L_DATA, L_OPERATIONS, L_MOVED, L_EXCLUSIVE, L_SERIAL, L_PRIORITY = range(4, 13)
L_RANGES, L_FIELDS, L_PAYLOAD = 13, 14, 15
"""ENGINE: as the cost says, but -1 moved when the ranges are the bytes; whether the worker is in serial mode
and its priority; then the ranges (of ``queues.RANGE_WORDS`` words) and the operands."""
L_COST, L_FIRST, L_SECOND = 4, 5, 6
"""Other rows: ticks that the core needs; then SEEN: nothing; AWAIT: targets that must be done; ARRIVAL:
stream and arrivals that must be there; BARRIER: set of tiles; UPDATE: target and stream."""
C_TARGET, C_STREAM, C_BYTES, C_DDR, C_LAST, C_RECORD = 5, 6, 7, 8, 9, 10
C_RANGES, C_FIELDS, C_PAYLOAD = 12, 13, 14
"""COPY: target, its stream or -1, bytes, bits (source in DDR, target in DDR), whether it is the last target,
record or -1; ranges and operands as for ENGINE."""
SHORT_ROW = 8
SOURCE_IN_DDR, TARGET_IN_DDR = 1, 2

# -- header of the chip's state
(
    H_TILES,
    H_NOW,
    H_OUT,
    H_OUT_ROWS,
    H_OUT_SIZE,
    H_EMIT,
    H_OVER,
    H_TILE_WORDS,
    H_WORKERS,
    H_FLOWS,
    H_LINKS,
    H_FLOW_AT,
    H_TILE_AT,
) = range(13)
"""Tiles; time; host address of the slices that nobody has taken, their number and most; whether anybody wants
them; whether the run is over; words of a tile; workers; number of DDR flows; places of links, flows and of
the first tile."""
H_VIRTUAL, H_SINCE, H_DEMAND, H_DDR_NEXT = range(13, 17)
"""DDR: virtual time, the time for which it holds, what the flows could take, when the next one ends."""
(
    H_CPI,
    H_ISSUE,
    H_ISSUE_COLD,
    H_JOIN,
    H_BARRIER,
    H_DTE_FIXED,
    H_DTE_FIRST,
    H_HOP,
    H_LINK,
    H_COLLISION,
    H_DDR_RATE,
    H_ROWS,
) = range(20, 32)
"""Coefficients in ticks; a link and the DDR in bytes for each ``KILO`` cycles; collision in millionths; tiles
in a column of the mesh."""
H_DEPTH = 32
"""Queue depth by engine."""
HEADER = 40
KILO = 1000
MILLION = 1_000_000

# -- DDR flows: who (tile place and number of the engine or copy), virtual time of the end, demand
F_TILE, F_WHO, F_END, F_DEMAND = range(4)
FLOW_WORDS = 4

# -- links of a tile: to larger x, smaller x, larger y, smaller y, out of its DTE, into its memory
EAST, WEST, SOUTH, NORTH, OUT, IN = range(6)
LINKS = 6
"""Each holds the time until which it is taken."""

# -- a tile
(
    P_NEXT,
    P_HOLD,
    P_CORE,
    P_CLOCK,
    P_DUE,
    P_RETIRED,
    P_NUMBER,
    P_SUBMITTED,
    P_SENT,
    P_SENT_DONE,
    P_LOG,
    P_LOG_AT,
    P_LOG_END,
    P_SINCE,
    P_FOR,
    P_COUNT,
    P_FREED,
    P_PATH_FREE,
    P_PATH_HOLDER,
    P_RUNNING,
    P_UNION_SINCE,
    P_LAST_END,
    P_MESSAGES,
    P_MESSAGE_NEXT,
    P_TILE,
    P_READS,
    P_PENDING,
) = range(27)
"""Next event; clock of a core whose log is worked off, else HUGE; what the core does; its clock; when the
row at the cursor takes effect; instructions that the clock includes; number of the next instruction; whether
one was submitted; messages sent, and done; the log: host address, cursor, end; since when the core waits, for
what and how much of it; number of the instruction that ended last of those waited for; when the path of CT
and TDMA gets free and whose it was last; engines at work, and since when there is one; end of the last work;
copies on their way, and the next event of theirs; number of the tile; times that were read; entries in
queues."""
P_BUSY = 28
"""Ticks of work by unit: CT, NE, RDMA, WDMA, TDMA, SCALAR, DTE, any of the first five."""
UNITS = 8
UNION = 7
P_SNAPSHOT = P_BUSY + UNITS
"""What a READ found: clock, then ``UNITS`` words as above, then the blocked ticks, [worker, unit]."""
MOST_WORKERS = 16
BLOCKED_UNITS = 6
P_ENGINES = P_SNAPSHOT + 1 + UNITS + MOST_WORKERS * BLOCKED_UNITS
E_SLOT, E_EVENT, E_PHASE, E_FREE, E_SERVED, E_WORKER, E_FLOWING = range(7)
"""An engine: place of the instruction it works on or 0, time of its next event, phase, since when it is free,
worker served last, worker whose instruction it has, when its data began to flow."""
ENGINE_WORDS = 8
P_ARRIVED = P_ENGINES + ENGINE_WORDS * queues.ENGINES
"""By stream: arrivals."""
STREAMS = 64
P_COPIES = P_ARRIVED + STREAMS
MOST_MESSAGES = 64
"""Messages of a tile on their way; the core waits when it has more."""
(
    M_EVENT,
    M_PHASE,
    M_NUMBER,
    M_PC,
    M_RECORD,
    M_TARGET,
    M_STREAM,
    M_BYTES,
    M_DDR,
    M_ISSUED,
    M_BEGIN,
    M_END,
    M_BLOCKED,
    M_CAUSE,
    M_KIND,
    M_RANGES,
    M_FIELDS,
    M_PAYLOAD,
) = range(18)
"""A message; phase FREE when the place is unused, ``M_EVENT`` HUGE while it flows."""
MOST_FIELDS = 32
PAYLOAD = MOST_RANGES * queues.RANGE_WORDS + MOST_FIELDS
MESSAGE_WORDS = M_PAYLOAD + PAYLOAD
P_SCALAR = P_COPIES + MOST_MESSAGES * MESSAGE_WORDS
"""The instruction of SCALAR, as if it were in a slot (``S_*``)."""

# -- a worker
W_LIVE, W_COUNT = 0, 1
"""Bit for each slot in use; their number."""
W_PENDING, W_HEADS, W_TAILS, W_BLOCKED = 2, 8, 14, 20
"""By engine: entries that have not begun, place of the first and the last one; ticks blocked, by unit."""
W_SLOTS = 26
SLOTS = 62
(
    S_PC,
    S_WORKER,
    S_RECORD,
    S_ENGINE,
    S_FIXED,
    S_DATA,
    S_OPERATIONS,
    S_MOVED,
    S_EXCLUSIVE,
    S_SERIAL,
    S_PRIORITY,
    S_RANGES,
    S_FIELDS,
) = range(13)
"""As in the log from ``L_PC`` on."""
(
    S_NUMBER,
    S_ISSUED,
    S_STARTED,
    S_DEPENDS,
    S_RELEASED,
    S_FOLLOWER,
    S_BLOCKED,
    S_CAUSE,
    S_BLOCKER,
    S_PAYLOAD,
) = range(13, 23)
"""Number; times; slots of older instructions it depends on; number of the one that ended last of these;
place of the next entry of the queue; what was lost, why, and by whom."""
SLOT_WORDS = S_PAYLOAD + PAYLOAD
P_QUEUES = P_SCALAR + SLOT_WORDS
"""The workers, one behind the other."""
WORKER_WORDS = W_SLOTS + SLOTS * SLOT_WORDS

# -- what a core does (P_CORE)
(
    RUNNING,
    STARVED,
    FOR_ROOM,
    FOR_WORKER,
    FOR_RESULT,
    FOR_COPIES,
    FOR_MESSAGE,
    FOR_ARRIVAL,
    AT_BARRIER,
    EXITED,
) = range(10)
"""STARVED: nobody knows yet what it does next."""

# -- phases of engines and messages
FREE, BEFORE_FLOW, FLOWING, AT_WORK = range(4)

# -- slices that nobody has taken: the columns of ``slices.SLICE``, ranges and fields
(
    O_TILE,
    O_WORKER,
    O_TRACK,
    O_RECORD,
    O_CAUSE,
    O_SOURCES,
    O_NUMBER,
    O_PC,
    O_ISSUED,
    O_STARTED,
    O_ENDED,
    O_BLOCKED,
    O_BLOCKER,
    O_TARGET,
    O_SPM_READ,
    O_SPM_WRITTEN,
    O_DDR_READ,
    O_DDR_WRITTEN,
    O_OPERATIONS,
) = range(19)
O_RANGES = 19
O_FIELDS = O_RANGES + 3 * MOST_RANGES
OUT_WORDS = O_FIELDS + MOST_FIELDS
OUT_ROWS = 4096
