"""The state of a machine in the middle of a run, in a file: ``--save-state`` and ``--load-state``.

A module for each part of the state; ``types`` has the records of the file.
"""
