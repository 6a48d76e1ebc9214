"""Stacks: convolutions and pools in one phase, their intermediate rows in the scratchpad.

``stages`` propagates the rows that a piece of the result needs, halo included, to the first stage.
"""
