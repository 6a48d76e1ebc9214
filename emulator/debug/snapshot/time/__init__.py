"""Simulated time in a snapshot: the words that the simulation works on, as records, and back.

``saving`` makes the records, ``restoring`` the words. What a file says is checked before it becomes words:
``bounds`` looks at the numbers, ``rows`` at the logs, ``instructions`` at what was issued. A simulation that
was checked ends: its positions lie inside, its times are finite, and nothing waits for what is younger.
"""
