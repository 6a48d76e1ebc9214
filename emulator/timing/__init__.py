"""Simulated time: computed beside the functional run, from what it logs, and never changing it."""
