"""What lowerings are written in: phases of code, index expressions, registers, scratchpad buffers.

It knows engine instructions and no operator of a graph.
"""

CONSTANTS_FILE = "prog.const"
"""File with the data of the constants, which the assembly text of a program includes."""
