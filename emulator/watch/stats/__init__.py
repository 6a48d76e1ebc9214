"""``--stats``: the work of a run and its time.

``sink`` counts while the program runs, ``result`` makes a report of the counts, ``text`` prints it.
"""
