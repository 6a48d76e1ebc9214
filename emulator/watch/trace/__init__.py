"""``--trace``: simulated time as a file for Perfetto and chrome://tracing (docs/trace.md).

``sink.Trace`` takes the slices of a run and writes the file.
"""
