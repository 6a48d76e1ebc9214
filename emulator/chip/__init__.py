"""The chip: tiles run in rounds, copies and barriers between them, loading and resetting.

``system.System`` is the whole of it.
"""
