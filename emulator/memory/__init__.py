"""The memories of a chip and the words of a tile's state that compiled code works on.

The lowest layer above ``native``: positions and sizes, no behaviour of the chip.
"""
