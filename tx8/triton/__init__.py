"""Kernels of Triton on the emulated chip: from the text of TTIR, or from Python where Triton is installed.

``kernel`` launches a text. Triton loads ``compiler`` and ``driver`` by the entry point ``triton.backends``;
nothing else imports them.
"""
