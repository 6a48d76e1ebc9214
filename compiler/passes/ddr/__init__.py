"""Passes that place values in DDR and decide which groups begin with a barrier.

They run when groups and their order are known.
"""
