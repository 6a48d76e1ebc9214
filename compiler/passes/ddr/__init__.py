"""Passes that order phases, place values in DDR and decide which phases begin with a barrier.

They run when the groups are known.
"""
