"""The facts about the chip: number formats, memory layouts, machines, and a record for each instruction.

Assembler, emulator, compiler and manual are derived from them; nothing here imports another package of tx8.
"""
