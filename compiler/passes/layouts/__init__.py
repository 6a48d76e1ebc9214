"""Passes on single operations: import, formats of tensors, orders of their axes in memory, equal operations.

They run before groups are formed.
"""
