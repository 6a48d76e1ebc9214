"""Code that the kernel core runs element by element: integers as data, and accesses at computed places.

The engines compute only floats, so everything here is slow in comparison.
"""
