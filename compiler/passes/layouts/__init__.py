"""Passes that decide the formats of tensors and the orders of their axes in memory.

They run before groups are formed.
"""
