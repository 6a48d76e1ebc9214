"""The largest operands: whole scratchpads, the widest windows, the longest sums, the most scratch."""

from __future__ import annotations

from random import Random

import asm
from chip_bench import chip
from emulator.chip.system import System
from emulator.memory.areas import LARGEST_SPM
from emulator.tile.fault import Fault

MACHINE = chip(spm=LARGEST_SPM)
_HALF = LARGEST_SPM // 2
_FP16, _FP32 = LARGEST_SPM // 2, LARGEST_SPM // 4
TEXTS = (
    f"ct.add.vv.fp16 dst=2, src0=0, src1=0, n={_FP16 - 1}",
    f"ct.add.vv.fp32 dst=0, src0=4, src1=4, n={_FP32 - 1}, rnd=stochastic",
    f"ct.maskmove.fp16 dst=2, src0=0, src1=0, n={_FP16 - 1}",
    f"ct.exp.v.fp16 dst=2, src0=0, n={_FP16 - 1}",
    f"ct.ge.bv.vv.fp16 dst=0x1000, src0=0, src1=0, n={_FP16}",
    f"ct.ge.bv.vuv_loop.fp16 dst=0x1000, src0=0, src1=0, n=64, unit=64, full={_FP16}, full_unit={_FP16}",
    f"ct.add.vuv_loop.fp16 dst=0, src0=0, src1=0, n=64, unit=64, full={_FP16}, full_unit={_FP16}",
    f"ct.and.bv.bvubv_loop dst=1, src0=0, src1=0, n=64, unit=64, full={8 * _HALF}, full_unit={8 * _HALF}",
    f"ct.or.bv.bvbv dst=1, src0=0, src1=0, n={8 * (_HALF - 64)}",
    f"ct.bit2fp.fp32 dst=0, src0=0, n={_FP32}",
    f"ct.maskgather.bv.fp16 dst=0, src0=0, src1=0, n={_FP16}",
    f"ct.maskgather.v.fp16 dst=0, src0=2, src1=0, n={_FP16 - 1}, entries=1",
    f"ct.elemmask.fp16 dst=2, src0=0, src1=1.0, n={_FP16 - 1}, p=0x3f000000, rnd=stochastic",
    f"ct.argmax.fp16 src0=0, n={_FP16}",
    f"ct.bitcount src0=0, n={8 * _HALF}",
    f"td.gatherscatter dst=1, src0=0, n={LARGEST_SPM - 1}",
    f"td.gatherscatter dst=0, src0=0, n=1, src_stride0=1, src_iter0={_HALF}, dst_stride0=1, "
    f"dst_iter0={_HALF}",
    "ct.reduce.sum.fp16 dst=0, src0=0, shape=[1,120,4096,1], dims=c",
    "ct.reduce.max.fp16 dst=0, src0=0, shape=[1,1,120,16384], dims=hw",
    "ct.pool.max.fp16 dst=0, src0=0, shape=[1,60,60,4], dst_shape=[1,60,60,4], window=[255,255,1,1], "
    "pad=[127,127,127,127]",
    "ct.pool.max_idx.fp16 dst=0, dst1=0x200000, src0=0, shape=[1,1,4096,64], dst_shape=[1,1,4096,64], "
    "window=[1,1,1,1]",
    "ct.unpool.avg.fp16 dst=0, src0=0, dst_shape=[1,1,4096,128], window=[1,1,1,1]",
    "ct.unpool.index.fp16 dst=0x40, src0=0, src1=0, dst_shape=[1,60,60,128], window=[50,50,1,1]",
    "ct.bilinear.fp16 dst=0x40, src0=0, shape=[1,4096,1,64], dst_shape=[1,1,4096,64], scale_x=65536, "
    "scale_y=0",
    "td.transpose.int8 dst=0x40, src0=0, shape=[1,4096,1000,1], dst_shape=[1,1000,4096,1]",
    "td.pad.fp16 dst=0, src0=0, shape=[1,1,1,4], dst_shape=[1,500,600,4], pad=[250,249,300,299]",
    "td.img2col.fp16 dst=0, src0=0, shape=[1,64,64,4], dst_shape=[1,4096,1,4], window=[64,64,1,1]",
    "ne.conv.fp16 a=0, w=0, out=0, shape=[1,42,3,16384], dst_shape=[1,1,1,1], window=[3,42,1,1]",
    "ne.conv.int8 a=0, w=0, out=0, shape=[1,84,3,16384], dst_shape=[1,1,1,1], window=[3,84,1,1]",
    "ne.conv.tf32 a=0, w=0, out=0, shape=[1,1,1,16], dst_shape=[1,2,2,1], window=[251,251,1,1], "
    "pad=[126,125,126,125]",
    "ne.conv.fp16 a=0, w=0, out=0, shape=[1,1,1,64], dst_shape=[1,1,1,16384], window=[1,1,1,1]",
    "ne.conv.fp16 a=0, w=0, out=0, shape=[1,1,1,1], dst_shape=[1,1,1,1], window=[2,2,1,1], "
    "pad=[511,512,511,512], dilation=[1023,1023]",
    "ne.dwconv.fp16 a=0, w=0, out=0, shape=[1,2,2,16], dst_shape=[1,2,2,16], window=[255,255,1,1], "
    "pad=[127,127,127,127]",
    "ne.dwconv.int8 a=0, w=0, out=0, shape=[1,1,1,16384], dst_shape=[1,1,1,16384], window=[10,10,1,1], "
    "pad=[5,4,5,4]",
    "ne.bwconv.fp16 a=0, dy=0, out=0, shape=[1,1,1,64], dst_shape=[1,1,4096,64], window=[1,1,1,1]",
    "ne.bwconv.fp16 a=0, dy=0, out=0, shape=[1,2,2,8], dst_shape=[255,255,1,8], window=[255,255,1,1], "
    "pad=[127,127,127,127]",
    "ne.gemm.fp16 a=0, b=0, out=0, m=1, k=16384, n=120",
    "ne.gemm.fp16 a=0, b=0, out=0, m=65535, k=4, n=4, lt=0",
    "ne.gemm.fp16 a=0, b=0, out=0, m=16, k=64, n=16384, rt=1",
    "ne.gemm.int8 a=0, b=0, out=0, m=1000, k=1000, n=1000, lt=1",
    "ne.gemm.tf32 a=0, b=0, out=0, m=1, k=1, n=1, lb=4096, rb=1",
)


def example(rng: Random) -> str:
    """All of them are tried, whatever the number of the example."""
    done = []
    for text in TEXTS:
        print(text, flush=True)
        system = System(asm.assemble(f"_start: {text}\n ncc.wait\n ebreak", machine=MACHINE), MACHINE)
        system.tiles[0].spm.data[:] = rng.randrange(256)
        try:
            system.run(100)
        except Fault as fault:
            assert "ebreak" in str(fault), fault
            done.append(int(system.tiles[0].counts[:, 0].sum()))
    assert all(count == 2 for count in done) and len(done) == len(TEXTS)
    return f"{len(done)} executed"
