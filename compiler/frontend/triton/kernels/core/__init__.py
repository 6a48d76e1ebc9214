"""Code that the kernel core runs element by element: integers as data, and accesses whose places are data.

The engines compute floats alone, so everything here is slow beside them.
"""
