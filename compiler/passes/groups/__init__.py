"""Passes that form groups and search for the division of their work.

A group is the operators that run in one phase.
"""
