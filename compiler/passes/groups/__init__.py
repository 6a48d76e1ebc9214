"""Passes that form groups, search for the division of their work, and order them.

A group is what runs in one phase.
"""
