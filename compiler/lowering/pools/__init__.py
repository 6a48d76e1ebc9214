"""Pools of all positions of each channel: alone, after a convolution, or shared by tiles.

After a convolution a tile has all positions of its maps in the scratchpad, and stores a number for each map.
"""
