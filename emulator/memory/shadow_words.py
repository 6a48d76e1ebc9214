"""The words of the sanitizer's memories, by position.

An *agent* acts in program order: the kernel core of a tile, each of its workers, each register block of its
DTE (block 0: the copies that instructions start). A *clock* counts the steps of an agent. The clocks in an
agent's *vector* say up to which step it has seen each other agent. An access is an instruction, or a load or
store of the core, within one step of its agent; its number is in the shadow of the bytes it touches.
"""

from __future__ import annotations

# --- the context, which all tiles share ---------------------------------------------------------------------

# Tables, by address, and their used sizes
ACCESSES = 0  # A_*
ACCESS_COUNT = 1
NODES = 2  # lists of readers
NODE_COUNT = 3
BLOCKS = 4  # shadows of granules, byte by byte
BLOCK_COUNT = 5
FREE = 6  # the first free block, 0 if there is none
VECTORS = 7  # the clocks of all agents, for every agent
AGENTS = 8  # number of agents
DDR_SHADOW = 9  # the summary of DDR

# Findings
PAIRS = 10  # hazards, P_*
PAIR_COUNT = 11
LOST = 12  # number of hazards that were not kept
PAIR_INDEX = 13  # hash table of the hazards
FULL = 14  # 1 when a table is full
SEQUENCE = 15  # findings so far

# The current access
VECTOR = 16  # address of its agent's vector
NUMBER = 17  # its own number
WRITE = 18  # 1 if it writes
AGENT = 19

# The last byte's shadow
SEEN_WRITER = 20  # before the access
SEEN_READERS = 21
NEXT_WRITER = 22  # after the access
NEXT_READERS = 23
PAIR_WRITER = 24  # address of the pair that this made, or 0
PAIR_READERS = 25

SPACE = 26  # the current memory: IN_DDR, or the tile whose SPM it is
SPAN_OF = 28  # the access that wrote the bytes of the current span, or 0
SPAN_NUMBER = 29  # the current span, as an access
RELEASED = 30  # the vectors of cores at their last stores to flags
PER_TILE = 31  # agents of a tile
FIRST_COPY = 32  # the first agent of a tile's DTE
ATOMIC = 33  # 1 if the current access is to a flag
IN_PLACE = 34  # 1 if each result of the current access replaces its operand, which may be unwritten

# The data caches of the cores
CACHES = 35  # by core, of all chips: C_*
LINES = 36  # of DDR, L_*
STORED = 37  # 1 if a core has stored through its cache
CACHED = 38  # the agent of the core through whose cache the current access goes, plus one; else 0
VIEWS = 39  # vectors of cores at their invalidations; 0 is none
VIEW_COUNT = 27
PIECE = 40  # scratch: a footprint, tx8isa.table.footprint.WORDS words
CONTEXT_WORDS = 64

IN_DDR = -1

# --- accesses -----------------------------------------------------------------------------------------------

# Words of an access. For a span: SPAN, the access whose data were there, 0, the access that may have spoiled
# it.
A_AGENT = 0
A_CLOCK = 1  # the step of its agent
A_PC = 2  # program counter, which tells the source line
A_WHAT = 3  # record number of its instruction, or one of those below
ACCESS_WORDS = 4

CORE = -1  # A_WHAT: a load or store of the core
HOST = -2  # A_WHAT: the contents before the program
COPY = -3  # A_WHAT: a register block of the DTE
FLAG = -4  # A_WHAT: a load or store of the core, perhaps of a flag by which tiles wait for each other
CACHED_CORE = -6  # A_WHAT: a load or store of the core through its cache
EXIT = -5  # A_WHAT: the end of a tile's program, after which its outputs are read
SPAN = -1  # A_AGENT: the access stands for the rest of a 256-byte line after a result
LOADED = 1  # number of the access of contents before the program; 0 means never
MOST_ACCESSES = 1 << 27

# --- shadows ------------------------------------------------------------------------------------------------

LIST = 1 << 30
"""Added to the number of a node: readers that are not ordered among themselves, the access and the rest."""
MOST_NODES = 1 << 26
MIXED = 1 << 31
"""Added to the number of a block, in a summary, if the bytes of the granule differ."""
MOST_BLOCKS = 1 << 24
GRANULE_SHIFT = 7
GRANULE = 1 << GRANULE_SHIFT
BLOCK_BYTES = 8 * GRANULE
"""A block: the writer of each byte, then its readers, 32 bits each. A summary has both once per granule."""

# --- hazards ------------------------------------------------------------------------------------------------

# Words of a pair: a hazard between two instructions
P_KIND = 0  # one of those below
P_ACCESS = 1  # the later access
P_OTHER = 2  # the earlier access
P_SPACE = 3  # as SPACE
P_FIRST = 4  # range of the first time; of OVERDUE, the cycles that the command takes
P_LAST = 5  # of OVERDUE, the allowed cycles
P_COUNT = 6  # number of occurrences
P_SEQUENCE = 7  # findings before and with it
PAIR_WORDS = 8
MOST_PAIRS = 1024
INDEX_WORDS = 8192

UNWRITTEN = 1  # bytes were never written
READ_WRITE = 2  # the other access wrote bytes that are read now, and nothing orders the two
WRITE_WRITE = 3  # the other access wrote bytes that are written now
WRITE_READ = 4  # the other access read bytes that are written now
SPOILED = 5  # the bytes were in the span of the other's result
OVERDUE = 6  # a command takes more cycles than are allowed
SHUNNED = 7  # a command that programs for a card avoid
HELD_READ = 8  # the other access stored bytes that are read now, and its core's cache may hold them back
HELD_WRITE = 9  # the other access stored to the line that is written now, and its core's cache may hold it
STALE_READ = 10  # the other access wrote bytes that are loaded now, and the cache may have older ones
STALE_LINE = 11  # the other access wrote to the line that is stored to now, and the cache may have it older
DROPPED = 12  # the other access stored to the line that is invalidated now, and nothing has cleaned it

# --- tiles --------------------------------------------------------------------------------------------------

# Words of a tile
T_CONTEXT = 0  # address of the context
T_TILE = 1  # its number
T_SPM = 2  # the summary of its SPM
T_CODE = 3  # the accesses of its core by word of the text, S_*
T_STORES = 4  # stores of its core so far
T_AGENT = 5  # its core; the workers follow, then the register blocks of its DTE
T_CLOCK = 6  # address of the core's own clock
T_DDR = 7  # the summary of DDR, as in the context
T_BLOCKS = 8  # the blocks, as in the context
T_COSTS = 9  # the table of costs, for commands that may take too long
T_FACTS = 10  # by record: operands (dst, src0) of elementwise instructions, or -1; 1 if it is shunned
TILE_WORDS = 16

# Words of a load or store of the text: shadow words without hazard for it, each repeated in both halves
S_CLOCK = 0  # the step of its core in which the other words are valid
S_NUMBER = 1  # its access in that step
S_WRITER = 2
S_READERS = 3
S_NEXT_WRITER = 4  # these words after the access
S_NEXT_READERS = 5
SITE_WORDS = 8

# --- caches of the cores ------------------------------------------------------------------------------------

# Words of a line of DDR that a core has stored to through its cache
L_ACCESS = 0  # the last such store, 0 if there was none
L_CLEANED = 1  # 1 + the number of the fence that completes its last cleaning, 0 without one since the store
L_CLEANS = 2  # number of earlier cleanings of the whole cache
L_SAFE = 3  # stores with numbers below were cleaned before that store
LINE_WORDS = 4

# Words of a cache. Fences count if something was cleaned since the one before.
C_FENCES = 0  # address of the clocks of the core at its fences
C_FENCE_COUNT = 1
C_PENDING = 2  # 1 if something was cleaned since the last fence
C_CLEANS = 3  # address of the number of the fence that completes each cleaning of the whole cache
C_CLEAN_COUNT = 4
C_VIEWS = 5  # address of the view at the last invalidation of each line of DDR, 32 bits each
C_VIEW = 6  # the view at the last invalidation of the whole cache
C_LAST = 7  # the last view of the core
CACHE_WORDS = 8
MOST_FENCES = 1 << 20
MOST_VIEWS = 1 << 18
