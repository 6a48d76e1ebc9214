"""Lowerings of operators that only move values, and of changes of order and format.

Addresses are known when compiling; where they depend on data see ``indexing``.
"""
