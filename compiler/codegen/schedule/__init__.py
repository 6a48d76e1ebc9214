"""The phases of a program in sequence: parts of a phase begin while the phase before is executed.

These modules move whole instructions between phases and know nothing of what they compute.
"""
