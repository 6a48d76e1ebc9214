"""Attention and rotary embedding, each as one phase.

Scores stay in the scratchpad; ``plan`` divides the work over tiles and blocks of keys.
"""
