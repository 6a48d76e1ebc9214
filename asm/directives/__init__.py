"""The directives of the assembler, by name.

They change sections, symbols and the source that is read; instructions are not their concern.
"""
