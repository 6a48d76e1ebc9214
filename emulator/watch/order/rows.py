"""The words of the logs of accesses, by position."""

from __future__ import annotations

from emulator.memory.shadow_words import TILE_WORDS
from tx8isa.table import footprint

# Words of a tile, after those of ``shadow_words``
O_ROWS = TILE_WORDS  # address of its rows
O_COUNT = TILE_WORDS + 1
O_ROOM = TILE_WORDS + 2  # rows that there is room for
O_LOST = TILE_WORDS + 3  # 1 if there were more
LOG_WORDS = TILE_WORDS + 4

# Words of a row
R_KIND = 0
R_AGENT = 1  # CORE, 1 + the worker, or FIRST_COPY + the register block of the DTE
R_PC = 2  # program counter of the instruction
R_WHAT = 3  # record number of its instruction, or one of ``shadow_words``
R_WRITTEN = 4
R_SPACE = 5  # the tile whose SPM it is, or IN_DDR
R_FIRST = 6
R_LOOPS = 7  # ``footprint.Loops``
ROW = R_LOOPS + footprint.WORDS

ACCESS = 0
WAIT = 1  # the core knows that all instructions of the agent are complete
BARRIER = 2
MOST_ROWS = 1 << 18
"""Rows of a tile."""

EXIT_AGENT = -1
CORE_AGENT = 0
MOST_WORKERS = 16
FIRST_COPY = 1 + MOST_WORKERS
