"""Wrong kernels of the usual kinds: one change in a puzzle's solution, and words of the diagnosis."""

from __future__ import annotations

from typing import NamedTuple

EVERYWHERE = "dte.unicast    dst=0x20000, src=0x10000, tile=t2, n=1024\n"
SEND = "dte.unicast    dst=t2, src=0x10000, tile=0, n=1024\n        dte.wait\n        ncc.barrier\n"


class WrongKernel(NamedTuple):
    """A change of a puzzle's solution; ``words`` are in the judge's text, the outcome first."""

    mistake: str
    puzzle: str
    old: str
    new: str
    words: tuple[str, ...]


WRONG = [
    WrongKernel(*row)
    for row in (
        # waits that are missing
        ("no wait at the end", "01_copy", "ncc.wait", "nop", ("hazards", "unfinished", "insert 'ncc.wait'")),
        ("no wait of many tiles", "06_rows", "ncc.wait", "nop", ("hazards", "15 other tiles", "ncc.wait")),
        (
            "core too early",
            "05_core",
            "n=64\n        ncc.wait",
            "n=64",
            ("unfinished", "lw", "insert 'ncc.wait'"),
        ),
        (
            "maximum too early",
            "12_softmax",
            "dims=c\n        ncc.wait\n        lw      t1",
            "dims=c\n        lw      t1",
            ("unfinished", "ct.reduce.max", "insert 'ncc.wait'"),
        ),
        (
            "sum too early",
            "12_softmax",
            "dims=c\n        ncc.wait\n        lw      t2",
            "dims=c\n        lw      t2",
            ("unfinished", "ct.reduce.sum", "insert 'ncc.wait'"),
        ),
        (
            "sent before it is loaded",
            "09_neighbour",
            "ncc.wait\n        dte",
            "dte",
            ("unfinished", "dte.unicast", "ncc.wait"),
        ),
        (
            "slot before it is loaded",
            "10_all_rows",
            "ncc.wait\n        dte",
            "dte",
            ("unfinished", "dte.unicast", "ncc.wait"),
        ),
        ("copy not awaited", "09_neighbour", "dte.wait", "nop", ("race", "dte.wait")),
        ("slot not awaited", "10_all_rows", "dte.wait", "nop", ("race", "dte.wait")),
        ("no barrier", "09_neighbour", "ncc.barrier", "nop", ("race", "ncc.barrier")),
        ("no barrier before the sum", "10_all_rows", "ncc.barrier", "nop", ("race", "ncc.barrier")),
        (
            "core stores too late",
            "05_core",
            "sw      t1, 0(s1)\n        wdma.int32 dst=a1, src=0x20000, n=1",
            "wdma.int32 dst=a1, src=0x20000, n=1\n        sw      t1, 0(s1)",
            ("hazards", "unfinished"),
        ),
        # barriers and messages that never arrive
        (
            "half of the tiles",
            "09_neighbour",
            "ncc.barrier",
            "ncc.barrier tiles=3",
            ("fault", "value", "this tile's bit"),
        ),
        (
            "a tile that exits",
            "10_all_rows",
            SEND,
            f"bnez    t0, done\n        {SEND}",
            ("fault", "deadlock", "barrier"),
        ),
        (
            "a poll for ever",
            "05_core",
            "ncc.wait\n        lw",
            "wait:   lw      t1, 0(s1)\n        bnez    t1, wait\n        lw",
            ("fault", "loops without progress", "deadlock"),
        ),
        (
            "a loop without end",
            "10_all_rows",
            "bnez    t3, next",
            "j       next",
            ("fault", "outside the SPM", "range"),
        ),
        (
            "an empty loop",
            "19_overlap",
            "bnez    t3, next\n",
            "here:   j       here\n",
            ("fault", "loops without progress", "endless-wait"),
        ),
        # addresses
        (
            "past the end",
            "19_overlap",
            "li      a3, 0x110000",
            "li      a3, 0x2f0000",
            ("fault", "range", "lower the count or the address"),
        ),
        (
            "past the end, a literal",
            "02_plus_one",
            "dst=0x20000",
            "dst=0x2fff00",
            ("refused", "leave the SPM"),
        ),
        ("unaligned", "02_plus_one", "src0=0x10000", "src0=0x10002", ("refused", "multiple of 4")),
        (
            "unaligned register",
            "19_overlap",
            "li      a2, 0x10000",
            "li      a2, 0x10002",
            ("fault", "alignment", "multiple of 4"),
        ),
        (
            "the core's view of DDR",
            "01_copy",
            "la      a0, x",
            "la      a0, %core(x)",
            ("fault", "range", "%ncc(symbol)"),
        ),
        ("address zero", "05_core", "0(s0)", "0(zero)", ("fault", "address", "0x30400000")),
        ("row of another size", "06_rows", "1000 * 2", "1000 * 4", ("wrong", "hazard")),
        ("tile's offset only of x", "06_rows", "add     a1, a1, t0", "nop", ("wrong", "race")),
        (
            "tile's offset only of y",
            "06_rows",
            "add     a0, a0, t0",
            "nop",
            ("wrong", "every row is the same", "number of the tile"),
        ),
        ("results on one place", "07_sums", "slli    t1, t0, 2", "li      t1, 0", ("wrong", "race")),
        ("results as far apart as rows", "07_sums", "slli    t1, t0, 2", "slli    t1, t0, 3", ("wrong",)),
        (
            "the same slot",
            "10_all_rows",
            "add     t2, t2, t1              # my slot",
            "nop",
            ("wrong", "race", "uninitialised"),
        ),
        ("to the wrong neighbour", "09_neighbour", "addi    t2, t0, 1", "addi    t2, t0, 2", ("wrong",)),
        ("a tile that is not there", "09_neighbour", "andi    t2, t2, 15", "nop", ("fault", "value", "tile")),
        (
            "overlapping buffers",
            "03_add",
            "dst=0x20000, src=a1",
            "dst=0x10200, src=a1",
            ("wrong", "uninitialised"),
        ),
        (
            "one buffer for both",
            "03_add",
            "dst=0x20000, src=a1, n=700",
            "dst=0x10000, src=a1, n=700",
            ("wrong", "uninitialised"),
        ),
        (
            "buffers a little too near",
            "03_add",
            "dst=0x20000, src=a1, n=700\n        ct.add.vv.fp16 dst=0x30000, src0=0x10000, src1=0x20000",
            "dst=0x10400, src=a1, n=700\n        ct.add.vv.fp16 dst=0x30000, src0=0x10000, src1=0x10400",
            ("wrong", "the last 188"),
        ),
        (
            "reads another buffer",
            "02_plus_one",
            "src=0x20000",
            "src=0x30000",
            ("wrong", "uninitialised", "NaN"),
        ),
        ("stores the operand", "02_plus_one", "src=0x20000", "src=0x10000", ("wrong", "plus -1", "added")),
        # counts
        (
            "count too small",
            "02_plus_one",
            "src1=1.0, n=1000",
            "src1=1.0, n=960",
            ("wrong", "the last 40", "uninitialised"),
        ),
        (
            "store too short",
            "02_plus_one",
            "src=0x20000, n=1000",
            "src=0x20000, n=960",
            ("wrong", "the last 40", "zeros"),
        ),
        (
            "load too short",
            "04_clip",
            "src=a0, n=512",
            "src=a0, n=480",
            ("wrong", "the last 32", "uninitialised"),
        ),
        (
            "copy in elements",
            "09_neighbour",
            EVERYWHERE,
            EVERYWHERE.replace("1024", "256"),
            ("wrong", "uninitialised"),
        ),
        (
            "the tail is forgotten",
            "08_tail",
            "ble     t2, t3, count",
            "nop",
            ("wrong", "96 bytes after the end of 'y'", "the last piece"),
        ),
        (
            "the tail is left out",
            "08_tail",
            "li      t2, 1000",
            "li      t2, 961",
            ("wrong", "the last 39", "zeros"),
        ),
        ("one slot too few", "10_all_rows", "li      t3, 15", "li      t3, 14", ("wrong", "all of them")),
        ("one slot too many", "10_all_rows", "li      t3, 15", "li      t3, 16", ("wrong", "uninitialised")),
        (
            "a piece is left out",
            "19_overlap",
            "li      t3, 4",
            "li      t3, 3",
            ("wrong", "the last 25,000", "zeros"),
        ),
        ("too few columns", "07_sums", "[1,1,1,256]", "[1,1,1,255]", ("wrong",)),
        ("too many columns", "07_sums", "[1,1,1,256]", "[1,1,1,320]", ("wrong", "uninitialised")),
        # strides and layouts
        (
            "not transposed",
            "11_transpose",
            "n=1, stride0=64, iter0=16, stride1=1, iter1=64",
            "n=1024",
            ("wrong",),
        ),
        ("stride in bytes", "11_transpose", "stride0=64", "stride0=256", ("hazard", "uninitialised")),
        (
            "axes exchanged",
            "11_transpose",
            "stride0=64, iter0=16, stride1=1, iter1=64",
            "stride0=1, iter0=64, stride1=64, iter1=16",
            ("wrong",),
        ),
        ("stride too small", "11_transpose", "stride0=64", "stride0=32", ("wrong",)),
        ("right operand transposed", "13_matmul", ", rt=1", "", ("wrong", "nearly all of them")),
        ("left operand transposed", "13_matmul", "rt=1", "rt=1, lt=1", ("wrong",)),
        (
            "result transposed",
            "13_matmul",
            "a=0x10000, b=0x20000, out=0x30000, out_format=fp32, m=64, k=64, n=64, rt=1",
            "a=0x20000, b=0x10000, out=0x30000, out_format=fp32, m=64, k=64, n=64, lt=1",
            ("wrong", "transposed"),
        ),
        # formats and numbers
        ("wrong format of the result", "13_matmul", "out_format=fp32, ", "", ("wrong", "uninitialised")),
        ("wrong format of the operands", "03_add", "ct.add.vv.fp16", "ct.add.vv.bf16", ("wrong",)),
        (
            "half the bits",
            "02_plus_one",
            "ct.add.vs.fp32",
            "ct.add.vs.tf32",
            ("wrong", "too few bits", "more bits"),
        ),
        ("wrong sign", "08_tail", "src1=2.0", "src1=-2.0", ("wrong", "other sign")),
        ("wrong scale", "08_tail", "src1=2.0", "src1=4.0", ("wrong", "2 times the expected", "scales")),
        ("added twice", "02_plus_one", "src1=1.0", "src1=2.0", ("wrong", "plus 1", "added twice")),
        (
            "no maximum",
            "12_softmax",
            "li      s0, 0x30430000",
            "li      s0, 0x30431000",
            ("wrong", "NaN", "uninitialised"),
        ),
        ("scores not scaled", "20_attention", "src1=0.125", "src1=1.0", ("wrong",)),
        ("no ones", "20_attention", "value=1.0", "value=2.0", ("wrong", "0.5 times the expected")),
        ("bound forgotten", "04_clip", "src1=6.0", "src1=60.0", ("wrong",)),
        ("bound exchanged", "04_clip", "ct.min.vs", "ct.max.vs", ("wrong",)),
        # programs
        ("no exit", "01_copy", "ecall", "nop", ("fault", "illegal-instruction")),
        ("a status", "01_copy", "li      a0, 0", "li      a0, 4", ("fault", "exit-status", "status 4")),
        ("an assertion", "01_copy", "ncc.wait", "ebreak", ("fault", "breakpoint")),
        (
            "a worker that is not there",
            "02_plus_one",
            "n=1000\n        ct",
            "n=1000, worker=3\n        ct",
            ("refused", "worker"),
        ),
        (
            "another worker",
            "02_plus_one",
            "src=a0, n=1000",
            "src=a0, n=1000, worker=1",
            ("race", "ncc.wait worker=1"),
        ),
        ("a mnemonic", "02_plus_one", "ct.add.vs", "ct.plus.vs", ("refused", "ct.plus")),
        ("an operand", "02_plus_one", "src0=", "source=", ("refused", "source")),
        ("a label", "08_tail", "t3, count", "t3, cuont", ("refused", "cuont")),
        (
            "a wait in the loop",
            "19_overlap",
            "addi    t3, t3, -1",
            "ncc.wait\n        addi    t3, t3, -1",
            ("slow", "34,000"),
        ),
    )
]
