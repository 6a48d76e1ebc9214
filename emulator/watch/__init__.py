"""What watches a run and changes nothing of it: statistics, traces, the report page, progress.

Each is a ``timing.slices.Sink`` or a ``tile.observer.Observer``.
"""
