"""The facts about the chip: number formats, memory layouts, machines, and a record for each instruction.

Assembler, emulator, compiler and manual are derived from these facts. This package imports no other one of
tx8.
"""
