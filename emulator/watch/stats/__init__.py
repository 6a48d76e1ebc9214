"""``--stats``: what a run did and how long it took.

``sink`` counts while the program runs, ``result`` makes a report of the counts, ``text`` prints it.
"""
