"""The phases of a program in sequence: what of a phase begins while the phase before is executed.

These modules move whole instructions between phases and know nothing of what they compute.
"""
