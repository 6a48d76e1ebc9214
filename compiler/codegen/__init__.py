"""What lowerings are written in: phases of code, index expressions, registers, scratchpad buffers.

It knows engine instructions and no operator of a graph.
"""
