"""What the tiles of a team load together, and bring together of their partial results.

Code for the DTE and for barriers of tile sets.
"""
