"""Passes that place values in DDR and decide which phases begin with a barrier.

They run when the groups and their order are known.
"""
