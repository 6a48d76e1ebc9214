"""Matrix products, with their epilogues.

Large products are a pipeline over chunks (``sweep``), small ones go block by block, and tiles share long
sums.
"""
