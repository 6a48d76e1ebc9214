"""The chip: tiles that run in rounds, copies and barriers between them, loading and resetting.

``system.System`` is a loaded program on a chip. ``chip.Chip`` executes the instructions that compiled code
leaves to Python. ``restart.Restart`` starts a program again in the same system.
"""
