"""Exchanges between chips, which the compiler inserts into a network on several chips.

Graphs of users do not contain them. A record describes the shape of its result. The values are distributed
over several chips, so the reference computes the result for a group of equal members.
"""
