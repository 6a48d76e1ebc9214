"""Exchanges between chips: collectives as copies of the DTE to other chips, and packets that order them.

Tile t of a chip meets tile t of the other chips of its group, as in ``tx8isa/include/tx8_chips.h``.
"""
