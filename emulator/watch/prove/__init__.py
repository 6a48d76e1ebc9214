"""Proofs: a program is executed in prime fields along with its bytes (docs/proving.md).

``memory.py`` keeps a field element with each number in memory, ``step.py`` is one instruction with its
operands, and the other files have a rule for each kind of meaning. ``observer.py`` executes the rules in the
order of the program.
"""
