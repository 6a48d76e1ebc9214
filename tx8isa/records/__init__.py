"""The record of an engine instruction: operands, encoding, rules, and the shapes a meaning can have.

The instructions themselves are in ``insns``; the table that collects them is in ``table``.
"""
