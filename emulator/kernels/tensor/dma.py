"""Kernels of RDMA and WDMA: DDR through three strides, SPM block by block (docs/isa.md, Loads and stores)."""

from __future__ import annotations

from emulator.kernels.shared import Kernel
from emulator.memory.rows import copy_rows
from emulator.memory.state import DDR, SIZE, SPM
from emulator.native.primitives.memory import view_i64
from tx8isa.numbers.formats import Format
from tx8isa.records.meaning import Load
from tx8isa.records.record import Instruction


def make_dma(instruction: Instruction, fmt: Format) -> Kernel:
    """Make the kernel of rdma or wdma; block and strides in elements of ``fmt``."""
    loads = isinstance(instruction.meaning, Load)
    names = [o.name for o in instruction.operands]
    target_at, source_at, count_at = (names.index(name) for name in ("dst", "src", "n"))
    loops_at = names.index("stride0")
    bits, operands = fmt.bits, len(names)
    target_memory, source_memory = (SPM, DDR) if loads else (DDR, SPM)

    def kernel(fields: int, state: int) -> int:
        words, memory = view_i64(fields, operands), view_i64(state, SIZE)
        target = memory[target_memory] + words[target_at]
        source = memory[source_memory] + words[source_at]
        block, rows = (bits * words[count_at] + 7) >> 3, words[loops_at + 1]
        pitch = bits * words[loops_at] >> 3
        second, third = bits * words[loops_at + 2] >> 3, bits * words[loops_at + 4] >> 3
        for k in range(words[loops_at + 3] * words[loops_at + 5]):
            strided = k % words[loops_at + 3] * second + k // words[loops_at + 3] * third
            compact = k * rows * block
            to, of = (compact, strided) if loads else (strided, compact)
            copy_rows(
                target + to, block if loads else pitch, source + of, pitch if loads else block, block, rows
            )
        return 0

    return kernel
