"""The state of a machine in the middle of a run, in a file: ``--save-state`` and ``--load-state``."""
