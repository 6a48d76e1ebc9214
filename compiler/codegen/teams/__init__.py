"""What the tiles of a team do together by copies and barriers: loading data, combining partial results.

``team`` loads, ``collective`` sums.
"""
