"""The words in which compiled code records a copy between tiles: its loops, its sources and targets.

``chip.sends`` records and carries out copies; simulated time logs them.
"""

from __future__ import annotations

# -- the loops, as ``chip.copies.copy_pieces`` reads them
TO = 0  # strides of the target
OF = 3  # strides of the source
SIZE = 6  # bytes of a piece
TRIPS = 7
NEST_WORDS = 10

# -- the places
SOURCE = 10  # the place that it reads
IN_DDR = 11  # 1: that is in DDR
STEP = 12  # scatter: distance of the sources of two tiles, else 0
TARGET = 13  # the place that it writes, in the SPM of the targets or in DDR
TILES = 14  # the set of targets
SPAN = 15  # bytes from the first to the last that is written
TO_DDR = 16  # 1: it writes into DDR
ENTRY = 17

MOST_TILES = 62
"""The most tiles, because only their sets are positive words; Python makes the copies of and to other
tiles."""
