"""``--report``: a run as one HTML page.

``sink`` collects what the page shows while the program runs, ``page`` makes it.
"""
