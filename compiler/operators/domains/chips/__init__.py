"""Exchanges between chips: what the compiler puts between the operators of a network on several chips.

Graphs of users do not have them. A record says what its result is in shape; the values are those of several
chips, so the reference computes what a group of equal members gets.
"""
