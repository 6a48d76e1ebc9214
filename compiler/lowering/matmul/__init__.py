"""Matrix products, with their epilogues.

Large products are a pipeline over chunks (``sweep``), small ones are computed block by block, and tiles share
long sums.
"""
