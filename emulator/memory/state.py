"""The words of one tile that compiled code works on: an int64 array, by position.

Kernels get its address as their second argument. Addresses of memories are host addresses.
"""

from __future__ import annotations

X = 0
"""x0..x31."""
SINK = 32
"""Where writes to x0 go."""
PC = 33
RETIRED = 34
"""Instructions executed, scalar and engine alike."""
LIMIT = 35
"""Value of RETIRED at which the tile gives control back."""
DETAIL = 36
"""Four words that explain why the tile stopped; see ``stop``."""
TILE = 40
SPM = 41
"""Host address of the tile's scratchpad."""
SPM_BYTES = 42
DDR = 43
"""Host address of DDR byte 0."""
DDR_BYTES = 44
"""Mapped bytes of DDR."""
SCRATCH = 45
"""Host address of working memory private to the thread that runs the tile."""
SCRATCH_BYTES = 46
LINES = 47
"""Host address of one byte per 256-byte line of SPM: written or not."""
SEVERAL = 48
"""1 when a worker other than 0 was given an instruction."""
RANDOM = 49
"""State of the tile's 32-bit LFSR (stochastic rounding; proposed)."""
CODE = 50
"""Host address of the predecoded program, one word for each four bytes, perhaps with entrances."""
CODE_BASE = 51
"""Core address of its first word."""
CODE_WORDS = 52
KERNELS = 53
"""Host address of the kernels by slot: code address, address of its lookup table or 0."""
RECORDS = 54
"""Host address of the engine records' tables; see ``tables``."""
COUNTS = 55
"""Host address of counters by record: executed, bytes read, bytes written, unused."""
QUEUE = 56
"""Host address of the instruction queues of worker 0; see ``queues``."""
CORE_SPM = 57
"""Core address of SPM byte 0, weakly ordered; then the strongly ordered one."""
CORE_SPM_STRONG = 58
CORE_DDR = 59
"""Core address of DDR byte 0, cached; then the uncached one."""
CORE_DDR_UNCACHED = 60
CORE_WINDOW = 61
"""Bytes of DDR that the core sees through either."""
ENGINE_DDR = 62
"""Address of DDR byte 0 in the engines' view."""
ISSUE = 63
"""Address of the compiled issue function; see ``issue``."""
DEPTH = 64
"""Queue depth by engine code, 8 words."""
TEXT = 72
"""Host address of the program text as it was loaded; its first byte is at ``CODE_BASE``."""
WRITE_BACK = 73
"""Host address of wb_data0 and wb_data1 of the worker whose queued instruction executes."""
NUMERIC = 74
"""Kernels set bits of their unit's field of the exception register here; 0 between instructions."""
TURN = 75
"""Engine served last."""
WORKERS = 76
WORKER = 77
"""Worker of the instruction issued last."""
WRITE_SPAN = 78
"""What is written behind results: ``queues.EXACT`` or ``HOSTILE``."""
FLOAT_UNIT = 79
"""Address of the compiled floating-point unit, 0 when the program has no use for it."""
F = 80
"""f0..f31, raw bits; single precision is NaN-boxed."""
FCSR = 112
"""Rounding mode in bits 7:5, accrued exceptions in 4:0."""
FIRST_EXCEPTION = 113
"""One bit: the worker that raised the first exception."""
STOP_ON_EXCEPTION = 114
"""1: an exception that is not masked stops the tile."""
NCC = 115
"""Core address of the NCC window of worker 0; then the distance to the next one."""
NCC_STRIDE = 116
REGISTERS = 117
"""Host address of the operand registers of worker 0; see ``window``."""
REGISTER_MAP = 118
"""Host address of a byte for every register place of a window: 1 where a store is a plain write."""
TRAPPED = 119
"""Value of RETIRED at the last trap of the core, plus one."""
SERVED = 120
"""By engine, 5 words: the worker served last."""
ANSWER = 125
"""What SCALAR computed last."""
PLAIN = 126
"""Host address of the predecoded program without entrances to translations; see ``translate``."""
TIMING_HOOK = 127
"""Address of the function that notes what simulated time is computed from, or 0; see ``observer``."""
TIMING = 128
"""Host address of what that function works on."""
SANITIZER_HOOK = 129
"""Address of the sanitizer's function, or 0; see ``observer``."""
SANITIZER = 130
"""Host address of what that function works on."""
CORE_CHECK = 131
"""Address of the function that the checked loop of the core calls before a load or store, or 0."""
ORDER = 132
"""Host address of what another order than the usual one is chosen by, or 0; see ``queues.explore``."""
LSU_TIMEOUT = 133
"""Cycles that a command of RDMA, WDMA or TDMA may take; only the sanitizer looks at it."""
DDR_MARKS = 134
"""Host address of one byte per granule of DDR: written or not; see ``memories``."""
HART = 135
"""What mhartid reads."""
SIZE = 136
ROOM = 256
"""Words that are there, the last ones unused: the loop reads the places that bytes of a decoded word name
before it looks at the operation, and the word of a translation or of an engine instruction names any."""
