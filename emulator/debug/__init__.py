"""Looking into a run and going back in it: GDB, snapshots, other orders.

It stops and starts the rounds of ``chip``.
"""
