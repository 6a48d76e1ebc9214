"""Operators that only move values, casts of floats, and changes of the order of axes.

Their addresses are known when compiling; moves whose addresses depend on data are in ``indexing``.
"""
