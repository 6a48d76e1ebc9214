"""The chip: tiles that run in rounds, copies and barriers between them, loading and resetting."""
