"""Matrix products, with their epilogues.

Large ones are a pipeline over chunks (``sweep``), small ones go block by block, tiles share long sums.
"""
