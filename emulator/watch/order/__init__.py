"""Proofs of order: no two accesses that nothing orders touch the same bytes (docs/order.md).

``log.py`` keeps every access of a run with its footprint, ``observer.py`` keeps what orders the accesses of
tiles. ``judge.py`` compares accesses as ranges and nested loops of bytes, by ``nests.py``; no byte has a
shadow. The sanitizer shares the code of footprints, the test for flags, and the words of the findings.
"""
