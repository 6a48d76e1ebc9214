"""``--report``: a run as one HTML page to look at. ``sink.Report`` gathers, ``page`` writes."""
