"""The sanitizer of ``--strict``, which finds hazards (docs/strict.md).

``shadow`` keeps the last writer and the last readers of every byte, and compares each access with them.
``checks`` and ``core_checks`` are called for the accesses of the engines and of the kernel core.
``sanitizer`` sets them up and follows the order of tiles, workers and copies. ``findings`` describes the
findings in words.
"""
