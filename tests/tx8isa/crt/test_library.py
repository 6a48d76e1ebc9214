"""The library around the tables: starting packets, waiting, messages, tiles in turn, single values."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from c_tools import needs_gcc, run_with
from crt_tools import built, ran
from emulator import Fault

HEAD = """\
#include <string.h>
#include <tx8.h>
#include "instr_adapter.h"
#include "instr_operator.h"
#include "lib_log.h"
"""
ALONE = "if (tx8_tile()) return 0;"


def program(body: str, head: str = "") -> str:
    return f"{HEAD}{head}\nint main(void) {{ {body} return 0; }}\n"


@needs_gcc
def test_packets_keep_their_worker_and_are_cleared(tmp_path: Path) -> None:
    body = (
        f"{ALONE} CT_Param p = {{I_NEUR | I_WORKER2, {{0,}}, {{0,}}}};"
        "TsmNewArith()->AddVS(&p, 0x10000, 0, 0x20000, 8, RND_ZERO, Fmt_FP16); seen[0] = p.inter_type;"
        "seen[1] = TsmExecute(&p); TsmWaitfinish_bywork(2);"
        "for (size_t i = 0; i < sizeof p; i++) seen[2] += ((uint8_t *)&p)[i];"
        "p.inter_type = I_WORKER1; TsmNewPeripheral()->Count(&p, 0x10000, 8, Fmt_FP16);"
        "seen[3] = TsmExecute(&p); seen[4] = p.param.wb_data0; seen[5] = p.ctrl.opcode;"
    )
    found = ran(program(body, "uint64_t seen[6];"), tmp_path, {}, {"seen": 48})["seen"]
    assert np.frombuffer(found, "u8").tolist() == [0x200, 0, 0, 0, 8, 175]


@needs_gcc
def test_a_packet_serves_several_members(tmp_path: Path) -> None:
    """As the vendor's code does: another member, another engine, and a type that does not fit the first."""
    body = (
        f"{ALONE} CT_Param p = {{I_CGRA, {{0,}}, {{0,}}}}; St_StrideIteration one = {{4, 1, 0, 1, 0, 1}};"
        "TD_Param *t = (TD_Param *)&p;"
        "TsmNewPeripheral()->Memset(t, 0x10000, 0x3f800000, 8, &one, Fmt_FP32); seen[0] = p.inter_type;"
        "TsmExecute(&p); TsmNewArith()->AddVV(&p, 0x10000, 0x10000, 0x20000, 8, RND_ZERO, Fmt_FP32);"
        "TsmExecute(&p); TsmNewReduce()->ReduceSum(&p, 0x20000, 0x30000, 0, (Data_Shape){1, 1, 1, 8},"
        "Fmt_FP32); seen[1] = p.param.dst_tfr; TsmExecute(&p); TsmWaitfinish();"
        "memcpy(&seen[2], get_spm_memory_mapping(0x30000), 4);"
    )
    found = ran(program(body, "uint64_t seen[3];"), tmp_path, {}, {"seen": 24})["seen"]
    seen = np.frombuffer(found, "u8").tolist()
    assert seen == [4, 0x0001_0001_0001_0001, int(np.float32(16).view("u4"))]


@needs_gcc
@pytest.mark.parametrize("kind", ["I_SCALAR", "I_DTE", "I_CSR", "200"])
def test_other_types_are_refused(kind: str, tmp_path: Path) -> None:
    body = f"{ALONE} CT_Param p = {{{kind}, {{0,}}, {{0,}}}}; p.param.src0 = 5; seen[0] = TsmExecute(&p);"
    found = ran(program(f"{body} seen[1] = p.param.src0;", "uint64_t seen[2];"), tmp_path, {}, {"seen": 16})
    assert np.frombuffer(found["seen"], "u8").tolist() == [1, 5]


@needs_gcc
def test_tables_are_the_same_by_all_ways(tmp_path: Path) -> None:
    body = (
        f"{ALONE} TsmOperatorPointer *o = g_intrinsic(); TsmArith *a = TsmNewArith(); TsmDeleteArith(a);"
        "seen[0] = o->arith_pointer == a && o == g_intrinsic(); seen[1] = o->conv_pointer == TsmNewConv();"
        "seen[2] = o->datamove_pointer == TsmNewDataMove(); seen[3] = o->stream_pointer == 0;"
    )
    found = ran(program(body, "uint64_t seen[4];"), tmp_path, {}, {"seen": 32})["seen"]
    assert np.frombuffer(found, "u8").tolist() == [1, 1, 1, 1]


@needs_gcc
def test_messages(tmp_path: Path) -> None:
    body = (
        f'{ALONE} tsm_ep_log("a.c", "f", 7, KCORE_LOG_ERROR, "%d of %s\\n", 3, "x");'
        'tsm_ep_log("a.c", "f", 8, KCORE_LOG_INFO, "not shown");'
        'tsm_ep_log("a.c", "f", 9, KCORE_LOG_WARN, "shown"); RT_ASSERT(true);'
    )
    _, printed = run_with(built(program(body), tmp_path), {}, {})
    assert printed == "a.c:7: f: 3 of x\na.c:9: f: shown\n"


@needs_gcc
def test_a_condition_that_does_not_hold_ends_the_program(tmp_path: Path) -> None:
    path = built(program(f"{ALONE} RT_ASSERT(tx8_tile() == 1);"), tmp_path)
    with pytest.raises(Fault, match=r"^tile 0 .*the program exited with status 1"):
        run_with(path, {}, {})


@needs_gcc
def test_an_unknown_table_is_a_fault(tmp_path: Path) -> None:
    """Streams have no table: a call through its pointer faults."""
    body = f"{ALONE} void (**table)(void) = g_intrinsic()->stream_pointer; table[0]();"
    with pytest.raises(Fault, match=r"^tile 0 "):
        run_with(built(program(body), tmp_path), {}, {})


@needs_gcc
@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("TsmNewArith()->AddVV(&p, 0, 0, 0x1000, 8, RND_ZERO, Fmt_INT8)", r"ct\.add\.vv"),
        ("TsmNewArith()->AddVV(&p, 0, 0, 0x1000, 8, 9, Fmt_FP16)", r"ct\.add\.vv\.fp16: operand 'rnd'"),
        ("TsmNewActivation()->Relu(&p, 0, 0x2fffff, 8, Fmt_FP16)", r"ct\.relu\.v\.fp16: operand 'dst'"),
        ("TsmNewReduce()->ReduceMax(&p, 0, 0, 3, (Data_Shape){1, 1, 1, 8}, Fmt_FP16)", "dims must not be n"),
    ],
)
def test_what_an_instruction_does_not_take_is_refused(call: str, message: str, tmp_path: Path) -> None:
    """It is refused in one line, about the instruction, when it is executed."""
    path = built(
        program(f"{ALONE} CT_Param p = {{I_CGRA, {{0,}}, {{0,}}}}; {call}; TsmExecute(&p);"), tmp_path
    )
    with pytest.raises(Fault, match=message) as fault:
        run_with(path, {}, {})
    assert "\n" not in str(fault.value)


@needs_gcc
@pytest.mark.parametrize("threads", [1, 2])
def test_one_tile_at_a_time(threads: int, tmp_path: Path) -> None:
    """All tiles add to one word by load and store, ten times each; without mutual exclusion, sums get
    lost."""
    head = "uint32_t sum, own[16];\nstatic volatile uint32_t *word(void) { return tx8_uncached(&sum); }"
    body = (
        "for (int i = 0; i < 10; i++) { atomic_barrier_in(); const uint32_t old = *word();"
        "for (volatile int wait = 0; wait < 50; wait++) { } *word() = old + 1; own[tx8_tile()]++;"
        "atomic_barrier_out(); }"
    )
    path = built(program(body, head), tmp_path)
    found, _ = run_with(path, {}, {"sum": 4, "own": 64}, threads=threads)
    assert int.from_bytes(found["sum"], "little") == 160
    assert np.frombuffer(found["own"], "u4").tolist() == [10] * 16


VALUES = """\
typedef union { float single; uint32_t bits; } hybrid_value;
float set_value2float32(Data_Format format, int8_t *value);
hybrid_value set_float2value(Data_Format format, float single);
void set_ptr_value_by_idx(void *array, hybrid_value value, uint64_t index, Data_Format format);
enum { N = 4096 };
float singles[N], widened[4][N];
uint32_t narrowed[4][N];
uint16_t patterns[65536];
uint32_t halves[65536], brains[65536];
"""


@needs_gcc
def test_single_values(tmp_path: Path) -> None:
    """Rounding and widening on the core, for every pattern of 16 bits, against NumPy and ml_dtypes."""
    body = (
        f"{ALONE} static const Data_Format kinds[4] = {{Fmt_FP16, Fmt_BF16, Fmt_TF32, Fmt_FP32}};"
        "for (int k = 0; k < 4; k++) for (int i = 0; i < N; i++) {"
        "  hybrid_value v = set_float2value(kinds[k], singles[i]);"
        "  set_ptr_value_by_idx(narrowed[k], v, i, kinds[k]);"
        "  const int size = k < 2 ? 2 : 4;"
        "  widened[k][i] = set_value2float32(kinds[k], (int8_t *)narrowed[k] + size * i); }"
        "for (int i = 0; i < 65536; i++) { patterns[i] = (uint16_t)i; float f ="
        "  set_value2float32(Fmt_FP16, (int8_t *)&patterns[i]); memcpy(&halves[i], &f, 4);"
        "  f = set_value2float32(Fmt_BF16, (int8_t *)&patterns[i]); memcpy(&brains[i], &f, 4); }"
    )
    rng = np.random.default_rng(3)
    singles = (rng.standard_normal(4096) * 2.0 ** rng.integers(-30, 18, 4096)).astype("f4")
    singles[:8] = [0.0, -0.0, np.inf, -np.inf, np.nan, 65519.9, 65520.0, 2.0**-25]
    sizes = {"narrowed": 4 * 4 * 4096, "widened": 4 * 4 * 4096, "halves": 262144, "brains": 262144}
    found = ran(program(body, VALUES), tmp_path, {"singles": singles.tobytes()}, sizes)
    rows = [found["narrowed"][16384 * k :][:16384] for k in range(4)]
    with np.errstate(over="ignore"):
        half, brain = singles.astype(np.float16), singles.astype(ml_dtypes.bfloat16)
    cut = ((singles.view("u4").astype("u8") + 0xFFF + (singles.view("u4") >> 13 & 1)) & 0xFFFFE000).astype(
        "u4"
    )
    cut[4] = singles.view("u4")[4]
    assert np.array_equal(np.frombuffer(rows[0][:8192], np.float16), half, equal_nan=True)
    assert np.array_equal(np.frombuffer(rows[1][:8192], "u2")[5:], brain.view("u2")[5:])
    assert rows[2] == cut.tobytes() and rows[3] == singles.tobytes()
    widened = np.frombuffer(found["widened"], "f4").reshape(4, -1)
    assert np.array_equal(widened[0], half.astype("f4"), equal_nan=True)
    assert np.array_equal(widened[1][5:], brain.astype("f4")[5:])
    patterns = np.arange(65536).astype("u2")
    assert np.array_equal(
        np.frombuffer(found["halves"], "f4"), patterns.view("f2").astype("f4"), equal_nan=True
    )
    assert np.array_equal(np.frombuffer(found["brains"], "u4"), patterns.astype("u4") << 16)
