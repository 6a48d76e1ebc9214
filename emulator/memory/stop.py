"""Why compiled code gave control back, and what the four words of ``state.DETAIL`` then hold."""

from __future__ import annotations

LIMIT = 0
"""``state.RETIRED`` reached ``state.LIMIT``."""
KERNEL = 1
"""(slot): a kernel that is not compiled yet is needed; enter again when it is."""
ILLEGAL = 2
"""No instruction stands at the program counter."""
JUMP = 3
"""(target): the target is not a multiple of 4 or lies outside the program."""
MEMORY = 4
"""(address, bytes, is a store): no memory is mapped there for the kernel core."""
CSR = 5
"""A CSR instruction, executed outside."""
SYSTEM = 6
"""ecall, ebreak and the like, executed outside."""
CONTROL = 7
"""(record): a send, wait or barrier whose operands stand in the entry being built."""
RANGE = 8
"""(record, operand, first byte, bytes): an operand's range leaves its memory."""
ALIGNMENT = 9
"""(record, operand, address, alignment)."""
VALUE = 10
"""(record, operand, value): a register holds a value outside the operand's range."""
RULE = 11
"""(record, index in ``tables.checks``): a condition between operands does not hold."""
OPCODE = 12
"""(engine, opcode): a control register of the NCC asks for an instruction that does not exist."""
STRIDE = 13
"""(record, operand, bytes, element): a byte stride in a register is no number of elements."""
END = 14
"""(record, operand, end, expected): an end register contradicts the other registers."""
EXCEPTION = 15
"""(worker, bits, instruction): an exception that is not masked, and the machine stops at exceptions."""
FENCE_I = 16
"""The program text is to be fetched again."""
WORKER = 17
"""(worker, workers): an instruction is given to a worker the machine does not have."""
FLOAT = 18
"""An operation of the floating-point unit; never seen outside compiled code."""
TRANSLATED = 19
"""Control reached or left translated code; never seen outside compiled code."""
LOG_FULL = 21
"""The log of simulated time has to be worked off (``Simulator.advance``) before the tile can go on."""
NEAR_LIMIT = 20
"""Translated code has no block short enough; never seen outside compiled code."""
