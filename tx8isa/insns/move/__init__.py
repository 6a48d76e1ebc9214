"""The records of the units that move data (RDMA, WDMA, TDMA and DTE), and of waits for them.

Loop nests are in ``families/nest.py``.
"""
