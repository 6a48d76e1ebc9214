"""Observers of a run, which do not change it: statistics, traces, the report page, the sanitizer.

Each is a ``timing.slices.Sink`` or a ``tile.observer.Observer``.
"""
