"""Running a program under the debugger: rounds that can be left at any instruction, and going back.

The protocol is in ``debug/gdb``.
"""
