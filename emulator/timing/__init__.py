"""Simulated time: computed from a run's logs, without any effect on its results.

The model consists of plain functions that are compiled (``simulate``); ``simulator`` connects it to a run.
"""
