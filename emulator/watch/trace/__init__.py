"""``--trace``: simulated time as a file that Perfetto and chrome://tracing open (docs/trace.md).

``sink.Trace`` writes it; ``option`` is light to import.
"""
