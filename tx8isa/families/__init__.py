"""What records of several files share: forms of vector instructions, matrix geometry, windows, loop nests.

The files of ``insns`` make their records with it.
"""
