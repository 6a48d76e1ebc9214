"""Proofs of order: no two accesses that nothing orders touch the same bytes (docs/proving.md).

``log.py`` keeps every access of a run with its footprint, ``observer.py`` what orders the accesses of tiles.
``judge.py`` compares accesses as ranges and nested loops of bytes, by ``nests.py``; no byte has a shadow, so
nothing here is shared with the sanitizer but the words of the findings.
"""
