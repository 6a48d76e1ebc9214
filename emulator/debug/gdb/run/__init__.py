"""Running a program under the debugger: rounds that can be left at any instruction, also backwards.

The protocol is in ``debug/gdb``.
"""
