"""Kernels of Triton on the emulated chip: from the text of TTIR, or from Python where Triton is installed.

``kernel`` launches a text. ``compiler`` and ``driver`` are what Triton loads, by the entry point
``triton.backends``; nothing else imports them.
"""
