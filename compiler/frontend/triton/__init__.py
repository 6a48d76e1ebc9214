"""Reading kernels of Triton: the text of TTIR, as Triton prints it, becomes operations of regions and blocks.

Nothing of Triton is needed for that, and nothing is known here of what an operation does.
"""
