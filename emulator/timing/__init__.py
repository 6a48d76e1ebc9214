"""Simulated time: computed beside the functional run, from what it logs, and never changing it.

Plain functions that are compiled hold the model (``simulate``); ``simulator`` connects it to a run.
"""
