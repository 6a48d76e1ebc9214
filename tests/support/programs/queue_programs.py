"""Engine instructions that depend on one another in the queues."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from chip_bench import ONE, W
from emulator.kernels.reference import execute
from tx8isa.table.registry import find

SPM = ONE.spm.bytes


DDR_AT = 0x20_0000
"""DDR offset of the bytes that test programs use."""


DDR_BYTES = 0x1000


Step = tuple[str, dict[str, int]]


def written(step: Step) -> str:
    """The assembly of a step; DDR addresses are offsets from the test's own bytes."""
    name, values = step
    shown = {k: v + W.ddr_engine + DDR_AT if _in_ddr(name, k) else v for k, v in values.items()}
    return f"{name} " + ", ".join(f"{k}={v:#x}" for k, v in shown.items())


def _in_ddr(name: str, operand: str) -> bool:
    return (name, operand) in (("rdma.fp32", "src"), ("wdma.fp32", "dst"))


def executed(steps: list[Step]) -> tuple[np.ndarray, np.ndarray]:
    """SPM and DDR after the slow reference has done the steps in program order."""
    spm = np.full(SPM, ONE.spm.reset_byte, np.uint8)
    ddr = np.zeros(DDR_BYTES, np.uint8)
    for name, values in steps:
        record, fmt = find(name) or (None, None)
        assert record is not None
        operands = []
        for operand in record.operands:
            default = operand.default if isinstance(operand.default, int) else 0
            operands.append(int(fmt or 0) if operand.name == "format" else values.get(operand.name, default))
        execute(record, fmt, operands, spm, ddr)
    return spm, ddr


places = st.integers(0, 40).map(lambda k: 64 * k)


counts = st.sampled_from([1, 7, 16, 33])


values = st.sampled_from([0x3F800000, 0xC0400000, 0x00000001, 0x7F800000, 0x4B000001])


def every_second(n: int) -> dict[str, int]:
    """Every second word, n of them."""
    return {"src_stride0": 8, "src_iter0": n, "dst_stride0": 4, "dst_iter0": n}


STEPS = st.one_of(
    st.builds(lambda d, v, n: ("td.memset.fp32", {"dst": d, "value": v, "n": n}), places, values, counts),
    st.builds(
        lambda d, a, b, n: ("ct.add.vv.fp32", {"dst": d, "src0": a, "src1": b, "n": n}),
        places,
        places,
        places,
        counts,
    ),
    st.builds(lambda d, a, n: ("ct.abs.v.fp32", {"dst": d, "src0": a, "n": n}), places, places, counts),
    st.builds(lambda d, a, n: ("rdma.fp32", {"dst": d, "src": a, "n": n}), places, places, counts),
    st.builds(lambda d, a, n: ("wdma.fp32", {"dst": d, "src": a, "n": n}), places, places, counts),
    st.builds(
        lambda d, a, n: ("td.gatherscatter", {"dst": d, "src0": a, "n": 4, **every_second(n)}),
        places,
        places,
        counts,
    ),
)
