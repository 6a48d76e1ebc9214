"""A program in which each of sixteen tiles loads 2,048 halves, squares them and stores the result."""

from __future__ import annotations

NODES = ("load", "square", "store")


def square_program(times: int = 1, status: int = 0, nodes: tuple[str, str, str] = NODES) -> str:
    """Its assembly; ``times``: how often a tile squares the same numbers, ``status``: the exit status."""
    load, square, store = nodes
    squares = "ct.mul.vv.fp16 dst=0x20000, src0=0x10000, src1=0x10000, n=2048\n" * times
    return f"""
.input x, fp16, 16x2048
.output y, fp16, 16x2048
.text
_start: csrr t0, mhartid
    li t1, 4096
    mul t0, t0, t1
    la a0, x
    la a1, y
    add a0, a0, t0
    add a1, a1, t0
    .node "{load}"
    rdma.fp16 dst=0x10000, src=a0, n=2048
    .node "{square}"
    {squares}
    .node "{store}"
    wdma.fp16 dst=a1, src=0x20000, n=2048
    ncc.wait
    ncc.barrier
    li a0, {status}
    li a7, 93
    ecall
"""
