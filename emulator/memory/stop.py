"""Reasons for which compiled code stops; in parentheses, the contents of the words ``state.DETAIL``."""

from __future__ import annotations

LIMIT = 0  # state.RETIRED reached state.LIMIT
KERNEL = 1  # (slot): a kernel that is not compiled yet is needed; enter again when it is
ILLEGAL = 2  # there is no instruction at the program counter
JUMP = 3  # (target): the target is not a multiple of 4, or outside the program
MEMORY = 4  # (address, bytes, is a store): no memory is mapped there for the kernel core
CSR = 5  # a CSR instruction, executed outside
SYSTEM = 6  # ecall, ebreak and the like, executed outside
CONTROL = 7  # (record): a send, wait or barrier whose operands are in the entry being built
RANGE = 8  # (record, operand, first byte, bytes): an operand's range leaves its memory
ALIGNMENT = 9  # (record, operand, address, alignment)
VALUE = 10  # (record, operand, value): a register holds a value outside the operand's range
RULE = 11  # (record, index in tables.checks): a condition between operands does not hold
OPCODE = 12  # (engine, opcode): a control register of the NCC asks for an instruction that does not exist
STRIDE = 13  # (record, operand, bytes, element): a byte stride in a register is not a number of elements
END = 14  # (record, operand, end, expected): an end register contradicts the other registers
EXCEPTION = 15  # (worker, bits, instruction): an unmasked one, and the machine stops at exceptions
FENCE_I = 16  # the program text is to be fetched again
WORKER = 17  # (worker, workers): an instruction for a worker that the machine does not have
LOG_FULL = 21  # the log of simulated time has to be processed (Simulator.advance) before the tile continues
MADE = 23  # (address, bytes), or (0, 0, record): the program depends on data, in a run without them

# Never seen outside compiled code.
FLOAT = 18  # an operation of the floating-point unit
TRANSLATED = 19  # control reached or left translated code
HINT = 22  # at a hint
NEAR_LIMIT = 20  # the limit is too near for every block of translated code
