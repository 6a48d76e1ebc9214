"""Where the sanitizer keeps what: words of its memories, by position.

An *agent* works in an order of its own: the kernel core of a tile, each of its workers, each register block
of its DTE (block 0: the copies that instructions start). A *clock* counts the steps of an agent; the clocks
of an agent's *vector* say how far it has seen each of the others. An access is an instruction, or a load or
store of the core, within one step of its agent; its number stands in the shadow of the bytes it touches.
"""

from __future__ import annotations

ACCESSES, ACCESS_COUNT, NODES, NODE_COUNT, BLOCKS, BLOCK_COUNT, FREE, VECTORS, AGENTS, DDR_SHADOW = range(10)
"""Words of the context: tables and how much of them is in use, the agents' vectors, the summary of DDR."""
PAIRS, PAIR_COUNT, LOST, PAIR_INDEX, FULL, SEQUENCE = range(10, 16)
"""Hazards, how many there are, how many more were not kept, their hash table; whether a table is full; the
number of findings so far."""
VECTOR, NUMBER, WRITE, AGENT = range(16, 20)
"""The access at hand: its agent's vector and number; whether it writes."""
SEEN_WRITER, SEEN_READERS, NEXT_WRITER, NEXT_READERS, PAIR_WRITER, PAIR_READERS = range(20, 26)
"""What the last byte's shadow was, what it became, and the hazards that this was."""
SPACE, OPERAND, SPAN_OF, SPAN_NUMBER = range(26, 30)
"""The memory at hand; scratch."""
RELEASED, PER_TILE, FIRST_COPY, ATOMIC, IN_PLACE = range(30, 35)
"""The vectors that cores had at their last stores to flags; agents of a tile, and which is the first of its
DTE; whether the access at hand is one to a flag; whether each of its results replaces its
operand, so that what is of no use stays so and is not missed yet."""
PIECE = 40
"""Scratch: a footprint, ``tx8isa.table.footprint.WORDS`` words."""
CONTEXT_WORDS = 64
IN_DDR = -1
"""``SPACE`` of DDR; of SPM it is the tile."""

A_AGENT, A_CLOCK, A_PC, A_WHAT = range(4)
"""Words of an access. Its instruction's record number or one of those below; the program counter tells the
source line. Of a span: -1, the access whose data lay there, 0, and the access that may have spoiled it."""
ACCESS_WORDS = 4
CORE, HOST, COPY, FLAG = -1, -2, -3, -4
"""``A_WHAT`` of a load or store of the core, of what was there before the program, of a DTE register block,
and of a load or store of the core that may be one to a flag, by which tiles wait for each other."""
SPAN = -1
"""``A_AGENT`` of an access that stands for the rest of a 256-byte line behind a result."""
LOADED = 1
"""The access of what was there before the program. 0 means: never."""
MOST_ACCESSES = 1 << 27

LIST = 1 << 30
"""Added to the number of a node: readers that are not ordered among themselves, the access and the rest."""
MOST_NODES = 1 << 26
MIXED = 1 << 31
"""Added to the number of a block, in a summary: the bytes of the granule differ."""
MOST_BLOCKS = 1 << 24
GRANULE = 128
GRANULE_SHIFT = 7
BLOCK_BYTES = 8 * GRANULE
"""A block: the writer of each byte, then its readers, 32 bits each. A summary has both once per granule."""

P_KIND, P_ACCESS, P_OTHER, P_SPACE, P_FIRST, P_LAST, P_COUNT, P_SEQUENCE = range(8)
"""Words of a pair: a hazard between two instructions. The range is that of the first time."""
PAIR_WORDS = 8
MOST_PAIRS = 1024
INDEX_WORDS = 8192
UNWRITTEN, READ_WRITE, WRITE_WRITE, WRITE_READ, SPOILED, OVERDUE = range(1, 7)
"""``P_KIND``: bytes were never written; the other access wrote what is read or written now, or read what is
written now, and nothing orders the two; they lay in the span of the other's result; a
command takes ``P_FIRST`` cycles, and ``P_LAST`` are allowed."""

T_CONTEXT, T_TILE, T_SPM, T_CODE, T_STORES, T_AGENT, T_CLOCK, T_DDR, T_BLOCKS, T_SLOW, T_COSTS, T_IN_PLACE = (
    range(12)
)
"""Words of a tile: the context, its number, the summary of its SPM, the accesses of its core by word of the
text (``S_*``), a count of its stores, and the first of its agents: its core, behind which the workers follow,
then the register blocks of its DTE; the host address of the core's own clock; the summary of DDR and the
blocks, as in the context; the table of costs; by record the operands (dst, src0) of what works element by
element, or -1."""
TILE_WORDS = 16
S_CLOCK, S_NUMBER, S_WRITER, S_READERS, S_NEXT_WRITER, S_NEXT_READERS = range(6)
"""Words of a load or store: its access in the present step of its core, and a pair of shadow words that is no
hazard to it, with what they become, each twice side by side."""
SITE_WORDS = 8
