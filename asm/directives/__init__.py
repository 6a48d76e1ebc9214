"""The directives of the assembler, by name.

Directives change sections, symbols and the source that is read; they do not assemble instructions.
"""
