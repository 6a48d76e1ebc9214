"""The records of the units that move data, RDMA, WDMA, TDMA and DTE, and of the waits for them.

Loop nests are in ``families/nest.py``.
"""
