"""What the records of a family share: forms of vector instructions, matrix geometry, windows, loop nests.

Modules of ``insns`` are written in these words.
"""
