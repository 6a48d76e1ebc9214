"""The chip: tiles that run in rounds, copies and barriers between them, loading and resetting.

``system.System`` runs the rounds; ``chip`` does for a tile what compiled code leaves to Python.
"""
