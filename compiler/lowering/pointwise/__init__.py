"""Operators that compute each element by itself: as single phases, in chains, and as the epilogue of an
anchor.

Every operator has one record (record.py), which serves all three.
"""
