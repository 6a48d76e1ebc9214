"""One tile: its state, its registers, its traps and faults, and what can be observed of it.

It knows no other tile.
"""
