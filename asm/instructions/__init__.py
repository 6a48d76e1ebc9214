"""Instructions and pseudo-instructions as templates, derived from the records of ``tx8isa``.

A template turns the numbers and names of a statement into bytes.
"""
