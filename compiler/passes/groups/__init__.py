"""Passes that form groups and search for the division of their work.

A group is what runs in one phase.
"""
