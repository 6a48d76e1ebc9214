"""The record of an engine instruction: operands, encoding, rules, and the kinds of meanings.

The records themselves are in ``insns``; ``table`` collects them.
"""
