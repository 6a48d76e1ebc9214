"""The records of what moves data: RDMA, WDMA, TDMA, the DTE, and the waits for them.

Loop nests are in ``families/nest.py``.
"""
