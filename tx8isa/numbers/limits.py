"""The largest values of the chip's instruction operands. Records use them, and other code compares values
with them.

Constants of tensors in memory (bytes of a line, channels of a plane) are in ``layouts.py``. Values that
differ between machines (bytes of the scratchpad, time-outs) are in the machine description.
"""

from __future__ import annotations

# Packed operands: several numbers in one 64-bit word (docs/isa.md, Packed operands and ranges, spec)
LANE_BITS = 16  # bits of each number
LANE_MASK = (1 << LANE_BITS) - 1  # the largest number a lane could hold; the operands below allow less
LARGEST_EXTENT = 4096  # n, h and w of a tensor; batches of a matrix product
LARGEST_CHANNELS = 16384  # c of a tensor; k and (proposed) n of a matrix product
LARGEST_KERNEL = 255  # positions of a window along h or w
LARGEST_STRIDE = 1023  # positions between two windows along h or w
LARGEST_DILATION = 1023  # positions between two neighbours within a window
LARGEST_PAD = 1023  # rows or columns added to, or removed from, one side of an image

# Single operands
LARGEST_ROWS = LANE_MASK  # m of a matrix product (the field has 16 bits: spec; that all are legal: proposed)
LARGEST_COUNT = (1 << 24) - 1  # elements, bytes or trips of an engine instruction (spec)
LARGEST_BLOCK_STRIDE = (1 << 32) - 1  # between two blocks in DDR (elements) or of a DTE copy (bytes) (spec)
LARGEST_UNIT = 64  # elements of the unit that a V_VuV instruction repeats (spec)
SPM_ADDRESS_BITS = 22  # of an operand; a machine's scratchpad is smaller, which is checked at run time (spec)
DDR_ADDRESS_BITS = 40  # of an operand, in the engines' view of DDR (spec)
TILE_SET_BITS = 32  # tiles that a set names: as many as the DTE has destinations (spec)

# Memory
CACHE_LINE = 64  # bytes of a line of the core's data cache, a power of two (inferred: those of a C908)

# Duration
MOST_MOVES = 16384  # blocks that one TDMA instruction moves without running into its time-out (board)
