"""Passes that decide formats and the order in which tensors lie in memory.

They run before groups are formed.
"""
