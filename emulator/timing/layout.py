"""The words of simulated time: rows of the tiles' logs, and the state of the simulation.

A log lists a tile's actions in the order of its program; the first word of a row has its length. The state
of the simulation is one int64 array for the whole chip. Positions are word numbers. ``H_*`` count from the
start of the array, ``P_*`` from the start of a tile, ``W_*`` from that of a worker, ``S_*`` from that of an
instruction in flight, and ``M_*`` from that of a copy in transit between tiles. All times are ticks.
"""

from __future__ import annotations

from emulator.engines import queues
from emulator.engines.hooks import MOST_WORKERS as MOST_WORKERS

from .slices import MOST_RANGES as MOST_RANGES

HUGE = 1 << 62
"""A time that never comes."""

# -- the head of a tile's log, which ``state.TIMING`` points to
T_LOG = 0  # host address of the rows
T_AT = 1  # words used
T_SIZE = 2  # words there are
T_FULL = 3  # limit of the quantum that the full log has interrupted, or 0
T_SKIPPED = 4  # instructions that do not count because they only polled
T_COSTS = 5  # host address of the costs
T_DROPPED = 6  # words that were processed
T_KINDS = 7  # host address of a byte for each record: 1 if the tile has executed one
T_LINES = 8  # host address of a byte for each line of the code: 1 if the tile has executed it
T_FROM = 9  # program counter at the last row that its program has written
T_BEFORE = 10  # instructions before that row
T_EFFORT = 11  # words of EFFORT rows
T_LIBRARY = 12  # in the C runtime's library: instructions already handled; else -1
T_SENT = 13  # messages of copies that the tile has started
T_CARRIED = 14  # those of them that were carried out
T_WORDS = 15
CODE_LINE_SHIFT = 6
"""Lines of code have 64 bytes."""
MOST_LINES = 8
"""The most lines before an instruction that a tile which has jumped is assumed to come from.

More instructions than that were executed in a loop.
"""
LOG_WORDS = 1 << 21
"""Words of a log: 16 MiB, whose memory is used only as the log fills."""
LOG_PART = 1 << 18
"""Words after which a log is processed before the end of the run: barriers and waits end the round."""
LOG_MARGIN = 1 << 14
"""Words that one instruction fills at most: a copy to all tiles, a read of all streams."""

# -- kinds of rows
ENGINE = 0  # an engine instruction
WAIT = 1  # ``ncc.wait``
SEEN = 2  # a worker was seen idle
RESULT = 3  # a result of a worker's CT instruction was seen in its register
COPY = 4  # a copy to one target
UPDATE = 5  # a packet counter update
AWAIT = 6  # a wait for copies
ARRIVAL = 7  # an arrival was seen
BARRIER = 8
READ = 9  # time was read
PROGRESS = 10  # nothing but instructions of the core
EFFORT = 11  # work of the core that takes longer than its instructions
EXIT = 12  # the end of the program

# -- first words of every row
L_KIND = 0  # ``kind | words << LENGTH_SHIFT``
L_RETIRED = 1  # instructions before this one
L_PC = 2
L_WORKER = 3
LENGTH_SHIFT = 8
SHORT_ROW = 8
"""Words of a row that has no payload."""

# -- a row of ENGINE
L_RECORD = 4
L_ENGINE = 5
L_FIXED = 6  # ticks before the data phase
L_DATA = 7  # ticks of the data phase
L_OPERATIONS = 8
L_MOVED = 9  # bytes, or -1: those of the ranges
L_RUNS = 10  # contiguous runs of DDR
L_EXCLUSIVE = 11  # 1: it needs the path of CT and TDMA
L_SERIAL = 12  # 1: the worker is in serial mode
L_PRIORITY = 13  # of the worker
L_RANGES = 14  # number of ranges that follow
L_FIELDS = 15  # number of operands that follow them
L_PAYLOAD = 16  # ranges of ``queues.RANGE_WORDS`` words, then operands

# -- other rows
L_COST = 4  # the core's costs: position of the ticks in the header of the chip's state
L_FIRST = 5  # AWAIT: targets that must be done; ARRIVAL: stream; BARRIER: tiles; UPDATE: target
L_SECOND = 6  # ARRIVAL: arrivals that must be there; UPDATE: stream

# -- a row of EFFORT: how often, in the order of ``H_EFFORT``
L_EFFORT = 4
EFFORTS = 7  # new lines of code and kinds of commands, loads, uncached loads, divisions, cache lines, caches
EFFORT_ROW = 11

# -- a row of COPY
C_TARGET = 5
C_STREAM = 6  # stream of the target, or -1; to another chip: AWAY - its ticket
C_BYTES = 7
C_DDR = 8  # SOURCE_IN_DDR | TARGET_IN_DDR
C_LAST = 9  # 1: it is the last target
C_RECORD = 10  # or -1
C_RUNS = 11  # contiguous runs of DDR, of both sides
C_RANGES = 12  # as for ENGINE
C_FIELDS = 13
C_PAYLOAD = 14
SOURCE_IN_DDR = 1
TARGET_IN_DDR = 2
AWAY = -2
"""To another chip: a tile's tickets count its messages there; tiles there have numbers above those here."""

# -- a departure: something that leaves for another chip
D_TILE = 0  # number of the tile that sends it
D_TICKET = 1
D_BEGIN = 2  # its arrival at the first link
D_MESSAGE = 3  # position of the message
AWAY_WORDS = 4
AWAY_ROWS = 1024

# -- header of the chip's state
H_TILES = 0
H_NOW = 1  # simulated time
H_OUT = 2  # host address of the slices that were not taken yet
H_OUT_ROWS = 3  # number of them
H_OUT_SIZE = 4  # the most of them
H_EMIT = 5  # 1: slices are wanted
H_OVER = 6  # 1: the run is over
H_TILE_WORDS = 7  # words of a tile
H_WORKERS = 8  # workers of a tile
H_FLOWS = 9  # number of DDR flows
H_LINKS = 10  # position of the links
H_FLOW_AT = 11  # position of the flows
H_TILE_AT = 12  # position of the first tile
# DDR
H_VIRTUAL = 13  # virtual time
H_SINCE = 14  # the time to which the virtual time belongs
H_DEMAND = 15  # demand of all flows
H_DDR_NEXT = 16  # end of the next flow
# other chips
H_BOUND = 17  # time of the first event that is not processed, because others may send something; 0: none
H_AWAY = 18  # host address of the departures that were not taken yet; 0: there are no other chips
H_AWAY_ROWS = 19  # number of them
# coefficients in ticks, unless it says otherwise: the words from here to ``HEADER``
H_COEFFICIENTS = 20
H_CPI = 20
H_BARRIER = 24
H_DTE_FIXED = 25
H_DTE_FIRST = 26
H_HOP = 27
H_LINK = 28  # bytes in ``KILO`` cycles
H_COLLISION = 29  # in millionths
H_DDR_BYTE = 30  # price of bytes
H_DDR_RUN = 23  # of a contiguous run
H_PROGRAM = 33  # of a program
H_ROWS = 31  # tiles in a column of the mesh
H_DEPTH = 34  # by engine: the most instructions in its queue
# costs of the core for a row of its log (``L_COST``), in ticks
H_NOTHING = 40  # 0
H_JOIN = 41  # for ``ncc.wait``
H_POLL = 42  # to read a register of a unit
H_CSR = 43  # to read a CSR
H_SEND = 44  # to start a copy
H_ISSUE = 48  # by engine: to submit an instruction
H_EFFORT = 54  # additional costs of each unit in an EFFORT row
HEADER = 61
KILO = 1000
WHOLE = 100_000
"""The whole of DDR, in the unit of a flow's demand."""
MILLION = 1_000_000

# -- a DDR flow
F_TILE = 0  # position of the tile
F_WHO = 1  # number of the engine; of a copy, ``queues.ENGINES`` is added to its number
F_END = 2  # virtual time at which it ends
F_DEMAND = 3
FLOW_WORDS = 4

# -- the links of a tile; each holds the time until which it is taken
EAST = 0  # to larger x
WEST = 1  # to smaller x
SOUTH = 2  # to larger y
NORTH = 3  # to smaller y
OUT = 4  # out of its DTE
IN = 5  # into its memory
LINKS = 6

# -- a tile
P_NEXT = 0  # time of its next event
P_HOLD = 1  # clock of a core whose log is being processed, else HUGE
P_CORE = 2  # activity of the core
P_CLOCK = 3  # time of the core
P_DUE = 4  # time at which the row at the cursor takes effect
P_RETIRED = 5  # instructions that the clock includes
P_NUMBER = 6  # number of the next instruction
P_SENT = 8  # messages sent
P_SENT_DONE = 9  # messages that have arrived
P_LOG = 10  # host address of the log
P_LOG_AT = 11  # the cursor: words of the log that were processed
P_LOG_END = 12  # words of the log that are filled
P_SINCE = 13  # beginning of the core's wait
P_FOR = 14  # the object of the wait
P_COUNT = 15  # the amount that it waits for
P_FREED = 16  # number of the instruction that ended last of those waited for
P_PATH_FREE = 17  # time at which the path of CT and TDMA becomes free
P_PATH_HOLDER = 18  # number of the instruction that had it last
P_RUNNING = 19  # engines at work
P_UNION_SINCE = 20  # beginning of the time with at least one at work
P_LAST_END = 21  # end of the last work
P_MESSAGES = 22  # copies on their way
P_MESSAGE_NEXT = 23  # time of their next event
P_TILE = 24  # number of the tile
P_READS = 25  # times that were read
P_PENDING = 26  # instructions in queues
P_BUSY = 28
"""Ticks of work by unit: CT, NE, RDMA, WDMA, TDMA, SCALAR, any of the first five."""
UNITS = 7
UNION = 6
P_SNAPSHOT = P_BUSY + UNITS
"""The findings of a READ: clock, then ``UNITS`` words as above, then the blocked ticks [worker, unit]."""
BLOCKED_UNITS = 6
P_ENGINES = P_SNAPSHOT + 1 + UNITS + MOST_WORKERS * BLOCKED_UNITS
"""The engines, ``E_*``."""
E_SLOT = 0  # position of the instruction it works on, or 0
E_EVENT = 1  # time of its next event
E_PHASE = 2
E_FREE = 3  # since when it is free
E_SERVED = 4  # beginning of its free time
E_WORKER = 5  # worker whose instruction it has
E_FLOWING = 6  # beginning of its data flow
ENGINE_WORDS = 8
P_ARRIVED = P_ENGINES + ENGINE_WORDS * queues.ENGINES
"""Arrivals by stream."""
STREAMS = 64
P_COPIES = P_ARRIVED + STREAMS
"""The messages on their way, ``M_*``."""
MOST_MESSAGES = 64
"""Messages of a tile on their way; the core waits when it has more."""
M_EVENT = 0  # time of its next event; HUGE while it flows
M_PHASE = 1  # FREE when the place is unused
M_NUMBER = 2
M_PC = 3
M_RECORD = 4
M_TARGET = 5
M_STREAM = 6
M_BYTES = 7
M_DDR = 8
M_ISSUED = 9
M_BEGIN = 10
M_END = 11
M_BLOCKED = 12
M_CAUSE = 13
M_KIND = 14
M_RANGES = 15
M_FIELDS = 16
M_RUNS = 17
M_PAYLOAD = 18
MOST_FIELDS = 32
PAYLOAD = MOST_RANGES * queues.RANGE_WORDS + MOST_FIELDS
MESSAGE_WORDS = M_PAYLOAD + PAYLOAD
P_SCALAR = P_COPIES + MOST_MESSAGES * MESSAGE_WORDS
"""The instruction of SCALAR, as if it were in a slot (``S_*``)."""

# -- a worker
W_LIVE = 0  # a bit for each slot in use
W_COUNT = 1  # number of slots in use
W_PENDING = 2  # by engine: entries that have not begun
W_HEADS = 8  # by engine: position of the first one
W_TAILS = 14  # by engine: position of the last one
W_BLOCKED = 20  # by unit: ticks blocked
W_SLOTS = 26  # the slots, ``S_*``
SLOTS = 62

# -- a slot; the first words are those of the log from ``L_PC``
S_PC = 0
S_WORKER = 1
S_RECORD = 2
S_ENGINE = 3
S_FIXED = 4
S_DATA = 5
S_OPERATIONS = 6
S_MOVED = 7
S_RUNS = 8
S_EXCLUSIVE = 9
S_SERIAL = 10
S_PRIORITY = 11
S_RANGES = 12
S_FIELDS = 13
S_NUMBER = 14
S_ISSUED = 15
S_STARTED = 16
S_DEPENDS = 17  # a bit for each slot of an older instruction that it depends on
S_RELEASED = 18  # number of the one that ended last of these
S_FOLLOWER = 19  # position of the next entry of its queue
S_BLOCKED = 20  # ticks that were lost
S_CAUSE = 21  # the cause
S_BLOCKER = 22  # number of the instruction that caused it
S_PAYLOAD = 23
SLOT_WORDS = S_PAYLOAD + PAYLOAD
P_QUEUES = P_SCALAR + SLOT_WORDS
"""The workers, one after another."""
WORKER_WORDS = W_SLOTS + SLOTS * SLOT_WORDS

# -- activities of a core (``P_CORE``)
RUNNING = 0
STARVED = 1  # its log ends: its next action is not known
FOR_ROOM = 2
FOR_WORKER = 3
FOR_RESULT = 4
FOR_COPIES = 5
FOR_MESSAGE = 6
FOR_ARRIVAL = 7
AT_BARRIER = 8
LEAVING = 9  # for the fixed time of a program
EXITED = 10

# -- phases of engines and messages
FREE = 0
BEFORE_FLOW = 1
FLOWING = 2
AT_WORK = 3

# -- slices that were not taken yet: the columns of ``slices.SLICE``, then ranges and fields
O_TILE = 0
O_WORKER = 1
O_TRACK = 2
O_RECORD = 3
O_CAUSE = 4
O_SOURCES = 5
O_NUMBER = 6
O_PC = 7
O_ISSUED = 8
O_STARTED = 9
O_ENDED = 10
O_BLOCKED = 11
O_BLOCKER = 12
O_TARGET = 13
O_SPM_READ = 14
O_SPM_WRITTEN = 15
O_DDR_READ = 16
O_DDR_WRITTEN = 17
O_OPERATIONS = 18
O_RANGES = 19
O_FIELDS = O_RANGES + 3 * MOST_RANGES
OUT_WORDS = O_FIELDS + MOST_FIELDS
OUT_ROWS = 4096
