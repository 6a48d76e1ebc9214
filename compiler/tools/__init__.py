"""Tools around the compiler: the program cache, ``tx8opt``, verification node by node, runs.

Only ``run`` imports the emulator.
"""
