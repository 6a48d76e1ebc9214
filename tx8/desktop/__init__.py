"""Support for desktops: colours of assembly in editors, completion in shells, manual pages.

``rules`` describes assembly as patterns, from the records. ``lexer`` is the lexer that Pygments finds by its
entry point; ``files`` writes the folder ``editors`` of the repository. ``completion`` and ``pages`` are
derived from the parsers of the command lines. docs/editors.md says how to use all of it.
"""
