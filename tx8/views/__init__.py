"""Views of a run in Python: its statistics as an object, and cells of a notebook.

``run`` and ``program`` import these modules on first use.
"""
