"""What observes a run and changes nothing of it: statistics, traces, the report page, the sanitizer.

Each is a ``timing.slices.Sink`` or a ``tile.observer.Observer``.
"""
