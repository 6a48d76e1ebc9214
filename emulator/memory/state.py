"""The words of one tile that compiled code works on: an int64 array, by position.

Kernels get its address as their second argument. Addresses of memories, tables and functions are host
addresses. Core addresses, as a program uses them, are named so.
"""

from __future__ import annotations

# The kernel core
X = 0  # x0..x31
SINK = 32  # target of writes to x0
PC = 33  # core address of the next instruction
RETIRED = 34  # instructions executed, scalar and engine alike
LIMIT = 35  # value of RETIRED at which the tile gives control back
DETAIL = 36  # four words that explain why the tile stopped, see stop.py
TILE = 40  # number of the tile

# Memories
SPM = 41  # address of the scratchpad
SPM_BYTES = 42  # its size
DDR = 43  # address of DDR byte 0
DDR_BYTES = 44  # mapped bytes of DDR
SCRATCH = 45  # address of working memory private to the thread that runs the tile
SCRATCH_BYTES = 46  # its size
LINES = 47  # address of one byte for each line of SPM: written or not

SEVERAL = 48  # 1 when a worker other than 0 was given an instruction
RANDOM = 49  # state of the tile's 32-bit LFSR (stochastic rounding; proposed)

# The program
CODE = 50  # address of the predecoded program, one word for each two bytes, perhaps with entrances
CODE_BASE = 51  # core address of its first word
CODE_WORDS = 52  # its length
KERNELS = 53  # address of the kernels by slot: code address, address of its lookup table or 0
RECORDS = 54  # address of the engine records' tables, see tables.py
COUNTS = 55  # address of counters by record: executed, bytes read, bytes written, unused
QUEUE = 56  # address of the instruction queues of worker 0, see queues.py

# Addresses of the memories in the program's view
CORE_SPM = 57  # core address of SPM byte 0, weakly ordered
CORE_SPM_STRONG = 58  # core address of SPM byte 0, strongly ordered
CORE_DDR = 59  # core address of DDR byte 0, cached
CORE_DDR_UNCACHED = 60  # core address of DDR byte 0, uncached
CORE_WINDOW = 61  # bytes of DDR in each of the core's views
ENGINE_DDR = 62  # address of DDR byte 0 in the engines' view

# The engines
ISSUE = 63  # address of the compiled issue function, see issue.py
DEPTH = 64  # 8 words: queue depth by engine code
TEXT = 72  # address of the program text as it was loaded; its first byte is at CODE_BASE
WRITE_BACK = 73  # address of wb_data0 and wb_data1 of the worker whose queued instruction executes
NUMERIC = 74  # exception bits that kernels set for their unit; 0 between instructions
TURN = 75  # engine served last
WORKERS = 76  # workers of the tile
WORKER = 77  # worker of the instruction issued last
WRITE_SPAN = 78  # bytes written after results: queues.EXACT or queues.HOSTILE

# The floating-point unit and exceptions
FLOAT_UNIT = 79  # address of the compiled floating-point unit, 0 if the program does not use it
F = 80  # f0..f31, raw bits; single precision is NaN-boxed
FCSR = 112  # rounding mode in bits 7:5, accrued exceptions in 4:0
FIRST_EXCEPTION = 113  # one bit: the worker that raised the first exception
STOP_ON_EXCEPTION = 114  # 1: an unmasked exception stops the tile

# The NCC
NCC = 115  # core address of the window of worker 0
NCC_STRIDE = 116  # bytes from one window to the next
REGISTERS = 117  # address of the operand registers of worker 0, see packets.py
REGISTER_MAP = 118  # address of a byte for every register place of a window: 1 where a store is a plain write

TRAPPED = 119  # value of RETIRED at the last trap of the core, plus one
SERVED = 120  # 5 words: by engine, the worker served last
ANSWER = 125  # the last result of SCALAR
PLAIN = 126  # address of the predecoded program without entrances to translations

# Simulated time, the sanitizer, other orders
TIMING_HOOK = 127  # address of the function that logs events for simulated time, or 0
TIMING = 128  # address of what that function works on
SANITIZER_HOOK = 129  # address of the sanitizer's function, or 0
SANITIZER = 130  # address of what that function works on
CORE_CHECK = 131  # address of the check that the core's loop calls before a load or store, or 0
ORDER = 132  # address of the words for random orders, or 0, see queues.advance_at_random
LSU_TIMEOUT = 133  # cycles that a command of RDMA, WDMA or TDMA may take; read by the sanitizer alone

DDR_MARKS = 134  # address of one byte for each granule of DDR: written or not
HART = 135  # value of mhartid

# Counts of the core's own instructions for simulated time, since its last row of the log
LOADS = 136  # through the cache
UNCACHED_LOADS = 137
DIVISIONS = 138
CACHE_LINES = 139  # lines of the data cache that were cleaned or invalidated
CACHES = 140  # number of times that all of it was

HINT_HOOK = 141  # address of the function that is called for hints, or 0

# Runs without data
MADE = 142  # address of a byte for each line of DDR: engines or copies would have written; 0 in other runs
MADE_SPM = 143  # the same for the lines of SPM

SIZE = 144
ROOM = 256
"""Words allocated, the last ones unused. The loop reads the positions in the bytes of a decoded word before
it tests the operation, and the word of a translation or of an engine instruction may have any bytes there."""
