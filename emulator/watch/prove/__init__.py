"""Proofs: a program is executed once more in prime fields, beside its bytes (docs/proving.md).

``memory.py`` keeps field elements beside the bytes of a memory, ``step.py`` is one instruction with its
operands, and the other files have a rule for each shape of meaning. ``observer.py`` executes the rules in the
order of the program.
"""
