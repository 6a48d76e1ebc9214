"""Runs under the sanitizer that must report nothing."""

from __future__ import annotations

from random import Random

from chip_bench import ONE
from paths import ROOT

EXAMPLES = ROOT / "examples"


LINES = 40
"""Lines of SPM that the programs use, 256 bytes each; all of them are written first."""


DDR = 0x2_8020_0000


STEPS = (
    "td.memset.fp32 dst={a}, value=2.0, n=64, worker={w}",
    "ct.add.vv.fp32 dst={a}, src0={b}, src1={c}, n=64, worker={w}",
    "ct.abs.v.fp32 dst={a}, src0={b}, n=33, worker={w}",
    "rdma.fp32 dst={a}, src={d}, n=64, worker={w}",
    "wdma.fp32 dst={d}, src={b}, n=64, worker={w}",
    "td.gatherscatter dst={a}, src0={b}, n=4, src_stride0=8, src_iter0=32, dst_stride0=4, dst_iter0=32, "
    "worker={w}",
)


def orderly(rng: Random) -> str:
    """A program of phases: in each, every worker has separate lines; after each, all workers are awaited."""
    text = [f"td.memset.fp32 dst=0, value=1.0, n={64 * LINES}", f"li s1, {ONE.windows.spm_weak}"]
    text += [f"wdma.fp32 dst={DDR}, src=0, n={64 * LINES}", "ncc.wait"]
    for _ in range(6):
        shuffled = rng.sample(range(LINES), LINES)
        for _ in range(rng.randint(1, 25)):
            worker = rng.randrange(3)
            a, b, c, d = (256 * rng.choice(shuffled[worker::3]) for _ in range(4))
            text.append(rng.choice(STEPS).format(a=a, b=b, c=c, d=DDR + d, w=worker))
        text += ["ncc.wait", "ncc.wait worker=1", "ncc.wait worker=2"]
        place = 8 * rng.randrange(32 * LINES)
        text += [f"li t0, {place}", "add t0, t0, s1", "ld t1, 0(t0)", "sd t1, 0(t0)"]
        if rng.random() < 0.5:
            text += [f"td.memset.fp32 dst={256 * rng.randrange(LINES)}, value=3.0, n=64", "ncc.wait"]
    return "\n".join(text)
