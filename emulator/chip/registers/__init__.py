"""The registers of a chip's devices that tiles share: blocks of the DTE, and streams.

A store there starts a copy or an update, which is carried out between two rounds of tiles.
"""
