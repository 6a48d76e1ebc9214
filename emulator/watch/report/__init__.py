"""``--report``: a run as one HTML page to look at.

``sink`` gathers what the page shows while the program runs, ``page`` writes it.
"""
