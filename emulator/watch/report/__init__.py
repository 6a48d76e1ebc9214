"""``--report``: a run as one HTML page.

``sink`` collects the page's data while the program runs, ``page`` makes it.
"""
