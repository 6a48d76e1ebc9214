"""Code that records of several files share: vector forms, matrix geometry, windows, loop nests.

The files of ``insns`` build their records with it.
"""
