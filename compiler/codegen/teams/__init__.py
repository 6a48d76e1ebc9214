"""Team work of tiles by copies and barriers: loading data, combining partial results.

``team`` loads, ``collective`` sums.
"""
