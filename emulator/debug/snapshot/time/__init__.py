"""Simulated time in a snapshot: the words of the simulation as records, and back.

``saving`` makes the records, ``restoring`` the words. The contents of a file are checked before they become
words: ``bounds`` checks the numbers, ``rows`` the logs, ``instructions`` the issued instructions. A checked
simulation ends, because its positions are inside its tables, its times are finite, and nothing waits for
anything younger.
"""
