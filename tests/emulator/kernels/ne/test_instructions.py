"""ne.gemm and ne.conv as instructions: the sources of their operands."""

from __future__ import annotations

import numpy as np
import pytest

from emulator import native
from emulator.kernels.ne import make_kernel
from emulator.kernels.ne.gemm import gemm_scratch_bytes, make_gemm
from emulator.kernels.ne.problem import make_problem
from emulator.memory import state
from emulator.native.primitives.interpreted import register
from machine_code import needs_jit
from matrix_bench import run_problem
from matrix_sums import (
    Conv,
    any_numbers,
    arithmetic,
    ascending,
    check_result,
    decode,
    gemm,
    pack,
    scratch,
    small_numbers,
)
from tx8isa.numbers.formats import Format
from tx8isa.numbers.layouts import Layout, place
from tx8isa.table.registry import by_mnemonic

FP16, BF16, TF32, FP32 = Format.FP16, Format.BF16, Format.TF32, Format.FP32


def tile_state(spm: np.ndarray, area: np.ndarray) -> np.ndarray:
    words = np.zeros(state.SIZE, np.int64)
    words[state.SPM], words[state.SPM_BYTES] = spm.ctypes.data, spm.size
    words[state.SCRATCH], words[state.SCRATCH_BYTES] = area.ctypes.data, area.size
    return words


def fields_of(record, **values: int) -> np.ndarray:
    fields = np.zeros(len(record.operands) + 1, np.int64)
    for name, value in values.items():
        fields[record.index(name)] = value
    return fields


def packed(*lanes: int) -> int:
    total = 0
    for lane in lanes:
        total = total << 16 | lane
    return total


def run_instruction(mnemonic: str, memories: dict[int, np.ndarray], **values: int) -> np.ndarray:
    """The SPM after one instruction; ``memories`` are placed at their addresses before."""
    record = by_mnemonic()[mnemonic]
    spm = np.full(1 << 16, 0xFF, np.uint8)
    for address, content in memories.items():
        spm[address : address + content.nbytes] = content.view(np.uint8)
    area = np.zeros(1 << 22, np.uint8)
    words, fields = tile_state(spm, area), fields_of(record, **values)
    kernel = native.compile_kernel(make_kernel(record, FP16), mnemonic, 2, compact=True)
    assert native.call(kernel, fields.ctypes.data, words.ctypes.data) == 0
    return spm


@pytest.mark.parametrize("enabled", [0, 1])
def test_the_gemm_instruction_reads_its_operands(enabled):
    m, k, n = 3, 8, 5
    rng = np.random.default_rng(11)
    a, b = small_numbers(rng, (2, m, k), FP16), small_numbers(rng, (1, n, k), FP16)
    psum = small_numbers(rng, (2, m, n), BF16)
    spm = run_instruction(
        "ne.gemm",
        {0x1000: pack(a.swapaxes(1, 2), FP16), 0x2000: pack(b, FP16), 0x4000: pack(psum, BF16)},
        a=0x1000,
        b=0x2000,
        out=0x3000,
        psum=0x4000,
        m=m,
        k=k,
        n=n,
        lb=2,
        rb=1,
        lt=1,
        rt=0,
        format=int(FP16),
        out_format=int(FP32),
        psum_format=int(BF16),
        inpsum_en=enabled,
    )
    x, y = decode(a, FP16), decode(b, FP16)[0].T
    start = decode(psum, BF16) * enabled
    want = np.array([ascending(x[i], y, start[i]) for i in range(2)])
    size = place(FP32, (2, m, n), Layout.NCX).total_bytes
    check_result(spm[0x3000 : 0x3000 + size].view(np.uint32), want, FP32)


def test_the_conv_instruction_reads_its_operands():
    case = Conv(n=2, h=7, w=9, c=5, o=6, k=(2, 3), s=(2, 1), pads=(3, 2, 1, 4), d=(2, 3), unpads=(1, 0, 2, 1))
    weights = pack(case.weights.reshape(-1, case.c), FP16, Layout.CX)
    spm = run_instruction(
        "ne.conv",
        {0x1000: pack(case.x, FP16), 0x4000: weights},
        a=0x1000,
        w=0x4000,
        out=0x8000,
        shape=packed(2, 7, 9, 5),
        dst_shape=packed(*case.result),
        window=packed(3, 2, 1, 2),
        pad=packed(*case.pads),
        unpad=packed(*case.unpads),
        dilation=packed(3, 2),
        format=int(FP16),
        out_format=int(FP16),
        psum_format=int(FP32),
        inpsum_en=0,
    )
    size = place(FP16, case.result, Layout.NCX).total_bytes
    check_result(spm[0x8000 : 0x8000 + size].view(np.uint16), case.want(), FP16)


def test_other_instructions_are_refused():
    with pytest.raises(ValueError, match=r"ct\.add\.vv is not an instruction of the matrix engine"):
        make_kernel(by_mnemonic()["ct.add.vv"], FP16)
    with pytest.raises(ValueError, match=r"ne\.gemm is not an instruction of the matrix engine"):
        make_kernel(by_mnemonic()["ne.gemm"], None)


@needs_jit
def test_compiled_and_plain_kernels_agree():
    m, k, n = 5, 66, 20
    rng = np.random.default_rng(2)
    a, b = (pack(any_numbers(rng, shape, BF16), BF16) for shape in ((m, k), (k, n)))
    outputs = []
    for address in (gemm(BF16), register(make_gemm(arithmetic(BF16)))):
        out = np.full(place(BF16, (m, n), Layout.CX).total_bytes // 2, 7, np.uint16)
        area = scratch(gemm_scratch_bytes(arithmetic(BF16), m, k, n, 1, 1, BF16))
        run_problem(address, make_problem(m=m, k=k, n=n, rt=1, lb=1, rb=1, out_format=BF16), a, b, out, area)
        outputs.append(out.tobytes())
    assert outputs[0] == outputs[1]
