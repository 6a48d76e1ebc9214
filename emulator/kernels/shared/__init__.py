"""Small functions that the kernels of several families are made of: access, rows, planes, checks.

They are compiled into the kernels that use them.
"""
