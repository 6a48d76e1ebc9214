"""A graph computed in prime fields: what a proof compares a program with (docs/proving.md).

``rules.py`` says what operators mean, from the specification alone; ``run.py`` runs a graph; ``twin.py``
makes the graph whose constants and products every format has exactly.
"""
