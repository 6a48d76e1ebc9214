"""The records of the matrix engine NE: products and convolutions.

Their common code is in ``families/matrix.py``.
"""
