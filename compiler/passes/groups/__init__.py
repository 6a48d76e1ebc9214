"""Passes that form groups, divide their work and order them.

A group is what runs in one phase.
"""
