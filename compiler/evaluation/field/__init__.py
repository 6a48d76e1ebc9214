"""A graph computed in prime fields, with which a proof compares a program (docs/proving.md).

``rules.py`` defines operators, from the specification alone; ``run.py`` runs a graph; ``twin.py`` makes the
graph whose constants and products are exact in every format.
"""
