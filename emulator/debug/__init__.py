"""Debugging a run: the server for GDB, snapshots, and runs in other orders.

It stops and starts the rounds of ``chip``.
"""
