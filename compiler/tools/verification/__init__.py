"""Checks that a program computes its graph.

``nodes.py`` compares every node with its reference, within tolerances. ``prove.py`` proves the program in
prime fields, in which ``field_run.py`` runs it on the emulator and ``session.py`` goes step by step.
"""
