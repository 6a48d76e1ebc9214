"""Observers of a run, which change nothing of it: statistics, traces, the report page, the sanitizer.

Each is a ``timing.slices.Sink`` or a ``tile.observer.Observer``.
"""
