"""One tile: its state, its registers, its traps and faults, and its observable events.

The code does not depend on other tiles.
"""
