"""The records of the matrix engine NE: products and convolutions.

What they share is in ``families/matrix.py``.
"""
