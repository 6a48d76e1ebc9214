"""What a run did and how long it took: ``--stats``.

``sink`` counts while the program runs, ``result`` makes a report of it, ``text`` prints that.
"""
