"""The time of engine instructions, from their meanings and the coefficients of a machine.

The emulator's simulated time and the compiler's estimates use the same functions.
"""
