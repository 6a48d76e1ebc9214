"""What a run shows of itself to Python: its statistics as an object, and cells of a notebook.

``run`` and ``program`` import these modules when somebody asks for them.
"""
