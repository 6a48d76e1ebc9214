"""Text as statements: files and lines, the shape of a statement, expressions.

It knows no mnemonic and no directive.
"""
