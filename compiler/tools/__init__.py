"""What is built around the compiler: the program cache, ``tx8opt``, node by node verification, runs.

Only ``run`` starts the emulator.
"""
