"""The C examples on the emulated chip, compared with NumPy; and tx8.h, call by call."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from c_tools import EXAMPLES, HEADERS, MARCHES, PROGRAMS, ROOT, build, make, needs_gcc, run_with
from documents import blocks
from emulator import Fault
from emulator.program import Program, load

Array = np.ndarray[Any, Any]
HEADER = HEADERS / "tx8.h"


@pytest.fixture(scope="module", params=MARCHES)
def built(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Path:
    """All examples, without and with compressed instructions."""
    programs = [f"{name}.elf" for name in PROGRAMS]
    return make(tmp_path_factory.mktemp("c"), *programs, march=request.param)


def arrays(program: Path, threads: int = 1, **wanted: tuple[str, int]) -> tuple[dict[str, Array], str]:
    """Global variables after a run: dtype and number of elements by name."""
    sizes = {name: np.dtype(kind).itemsize * count for name, (kind, count) in wanted.items()}
    outputs, printed = run_with(program, {}, sizes, threads=threads)
    return {name: np.frombuffer(data, wanted[name][0]) for name, data in outputs.items()}, printed


def tx8emu(path: Path) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own."""
    call = "import sys; from emulator.cli import main; sys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", call, str(path)]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)


# --- the examples -------------------------------------------------------------------------


def test_every_example_is_tested() -> None:
    assert {path.stem for path in EXAMPLES.glob("*.c")} == set(PROGRAMS)
    assert f"PROGRAMS := {' '.join(PROGRAMS)}\n" in (EXAMPLES / "Makefile").read_text()


@needs_gcc
def test_hello(built: Path) -> None:
    result = tx8emu(built / "hello.elf")
    assert (result.returncode, result.stderr) == (0, "")
    lines = [f"hello from tile {tile:2} at {tile // 4}, {tile % 4}" for tile in range(16)]
    assert result.stdout.splitlines() == lines


@needs_gcc
def test_vector_add(built: Path) -> None:
    found, printed = arrays(
        built / "vector_add.elf", a=("f4", 1000), b=("f4", 1000), c=("f4", 1000), largest=("u4", 2)
    )
    i = np.arange(1000)
    assert (found["a"] == (0.25 * (i % 37) - 3).astype("f4")).all()
    assert (found["b"] == np.float32(1) / (i + 1).astype("f4")).all()
    assert (found["c"] == found["a"] + found["b"]).all()
    where = int(found["c"].argmax())
    assert found["largest"].tolist() == [int(found["c"].view("u4")[where]), where]
    assert printed == f"the largest is c[{where}] = {found['c'][where]:.9g}\n"


@needs_gcc
def test_batchnorm(built: Path) -> None:
    rows, channels, stored = 30, 148, 160
    size = rows * channels
    found, printed = arrays(
        built / "batchnorm.elf",
        x=("f2", size),
        y=("f2", size),
        mean=("f4", stored),
        variance=("f4", stored),
        scale=("f4", stored),
        shift=("f4", stored),
    )
    mean, variance, scale, shift = (found[n][:channels] for n in ("mean", "variance", "scale", "shift"))
    x = found["x"].reshape(rows, channels).astype("f4")
    assert len(np.unique(x)) > 1000 and len(np.unique(variance)) == 7
    factor = (1 / np.sqrt((variance + np.float32(1e-6)).astype("f8"))).astype("f4")
    expected = ((x - mean) * factor * scale + shift).astype("f2")
    y = found["y"].reshape(rows, channels)
    apart = np.abs(y.view("i2").astype(int) - expected.view("i2").astype(int))
    assert apart.max() <= 1, "one unit in the last place of FP16: the reciprocal root is within one of FP32"
    assert (apart == 0).mean() > 0.99
    assert printed.startswith(f"y[0] = 0x{found['y'].view('u2')[0]:04x}")


@needs_gcc
def test_gemm(built: Path) -> None:
    m, k, n = 48, 192, 64
    found, printed = arrays(built / "gemm.elf", a=("u2", m * k), b=("u2", n * k), out=("f4", m * n))
    a, b = ((found[x].astype("u4") << 16).view("f4").reshape(-1, k).astype("f8") for x in "ab")
    assert np.unique(a).size == 23 and np.unique(b).size == 19
    assert (found["out"].reshape(m, n) == a @ b.T).all(), "small integers and halves: exact in FP32"
    assert printed == f"out[0][0] = {found['out'][0]:g}, out[47][63] = {found['out'][-1]:g}\n"


@needs_gcc
@pytest.mark.parametrize("threads", [1, 2])
def test_ring(built: Path, threads: int) -> None:
    found, printed = arrays(built / "ring.elf", threads, sums=("u4", 16))
    total = sum(1000 * tile + i for tile in range(16) for i in range(64))
    assert found["sums"].tolist() == [total] * 16
    assert printed == f"tile 0: {total}, tile 15: {total}\n"


@needs_gcc
def test_allreduce(built: Path) -> None:
    found = load(built / "allreduce.elf")
    for program, count in ((found, 1), (Program(found.image, found.machine.of_chips(2, 1)), 2)):
        shown: list[bytes] = []
        program.run(show=lambda _, data, shown=shown: shown.append(data))
        lines = b"".join(shown).decode().splitlines()
        assert sorted(lines) == [f"chip {chip} has the sums of {count} chips" for chip in range(count)]


@needs_gcc
def test_floats(built: Path) -> None:
    n = 64
    found, printed = arrays(
        built / "floats.elf",
        squares=("f8", n),
        harmonic=("f8", 1),
        polynomial=("f8", 1),
        singles=("f4", n),
        integers=("i8", n),
        flags=("u4", 1),
    )
    roots = np.sqrt(np.arange(n, dtype="f8"))
    singles = np.arange(n, dtype="f4") / np.float32(3)
    assert (found["squares"] == roots).all() and (found["singles"] == singles).all()
    assert (found["integers"] == (roots * 1e6).astype("i8")).all()
    harmonic, polynomial = 0.0, 0.0
    for i in range(1, 1001):
        harmonic += 1.0 / i
    for single in singles.tolist():
        polynomial = float(Fraction(polynomial) * Fraction(0.9375) + Fraction(single))
    assert (found["harmonic"][0], found["polynomial"][0]) == (harmonic, polynomial)
    assert found["flags"][0] == 8, "DZ of fflags"
    first, second = printed.splitlines()
    assert [float(word) for word in first.split()] == [harmonic, polynomial, np.inf]
    assert second == "2.71828175 0.479425539"


# --- the run-time environment -------------------------------------------------------------

ON_TILE_0 = "if (tx8_tile() != 0) return 0;"


def program(folder: Path, body: str, head: str = "", march: str = MARCHES[0]) -> Path:
    source = f"#include <stdio.h>\n#include <tx8.h>\n{head}\nint main(void) {{ {body} return 0; }}\n"
    return build(source, folder, march)


@needs_gcc
def test_constructors_run_once_and_before_every_main(tmp_path: Path) -> None:
    head = (
        "uint32_t count = 5, seen[16];\n"
        "__attribute__((constructor)) static void first(void) { count += 1; }\n"
        "__attribute__((constructor)) static void second(void) { count *= 2; }\n"
    )
    found, _ = arrays(program(tmp_path, "seen[tx8_tile()] = count;", head), seen=("u4", 16))
    assert found["seen"].tolist() == [12] * 16


@needs_gcc
def test_thread_local_data_and_stacks_are_the_tiles_own(tmp_path: Path) -> None:
    head = (
        "#include <errno.h>\n_Thread_local uint32_t own = 100, other; uint32_t seen[16][4];\n"
        "static uint32_t deep(uint32_t n) { volatile uint32_t here = n; return n ? deep(n - 1) + here : 0; }"
    )
    body = (
        "const unsigned t = tx8_tile(); own += t; other += 2 * t; errno = (int)t; tx8_barrier(0);"
        "seen[t][0] = own; seen[t][1] = other; seen[t][2] = (uint32_t)errno; seen[t][3] = deep(t + 50);"
    )
    found, _ = arrays(program(tmp_path, body, head), seen=("u4", 64))
    rows = [[100 + t, 2 * t, t, (t + 50) * (t + 51) // 2] for t in range(16)]
    assert found["seen"].reshape(16, 4).tolist() == rows


@needs_gcc
def test_the_heap_of_one_tile(tmp_path: Path) -> None:
    body = (
        f"{ON_TILE_0} uint32_t *a = malloc(4000000), *b = calloc(1000, 4); a[999999] = 7;"
        'printf("%u %u %d", (unsigned)a[999999], (unsigned)b[999], a != b); free(a); free(b);'
    )
    _, printed = arrays(program(tmp_path, body, "#include <stdlib.h>"))
    assert printed == "7 0 1", "what is left without a line end is shown at the end"


@needs_gcc
def test_the_exit_status_is_that_of_main(tmp_path: Path) -> None:
    path = program(tmp_path, "if (tx8_tile() == 3) return 7;")
    with pytest.raises(Fault, match=r"^tile 3 .*the program exited with status 7"):
        run_with(path, {}, {})


@needs_gcc
def test_the_flags_of_the_vendor_make_compressed_code(tmp_path: Path) -> None:
    """-march=rv64imfdc -mabi=lp64d -mcmodel=medany, alone: no example's Makefile and no start-up code."""
    source, target = tmp_path / "c.c", tmp_path / "c.elf"
    source.write_text(
        "long total; static long add(long a, long b) { return a * 3 + b; }\n"
        "void _start(void) { long sum = 0; for (long i = 0; i < 100; i++) sum = add(sum, i); total = sum;\n"
        '    __asm__ volatile("li a7, 93\\n li a0, 0\\n ecall"); }\n'
    )
    flags = ["-march=rv64imfdc", "-mabi=lp64d", "-mcmodel=medany", "-nostdlib", "-O2", "-Wl,-n"]
    command = ["riscv64-unknown-elf-gcc", *flags, "-Wl,-Ttext=0x80000000", "-Wl,-Tdata=0x80100000"]
    subprocess.run([*command, "-Wl,-Tbss=0x80100000", str(source), "-o", str(target)], check=True)
    assert load(target).image.compressed
    found, _ = arrays(target, total=("i8", 1))
    expected = 0
    for i in range(100):
        expected = (expected * 3 + i + (1 << 63)) % (1 << 64) - (1 << 63)
    assert found["total"].tolist() == [expected]


def test_the_tools_are_there_in_continuous_integration() -> None:
    from c_tools import missing_tools

    assert os.environ.get("CI") != "true" or not missing_tools(), missing_tools()


# --- tx8.h --------------------------------------------------------------------------------


@needs_gcc
def test_addresses(tmp_path: Path) -> None:
    body = (
        f"{ON_TILE_0} seen[0] = tx8_engine_address(&seen[0]);"
        "seen[1] = tx8_engine_address(tx8_uncached(&seen[0])); seen[2] = (uint64_t)&seen[0];"
        "*(uint32_t *)tx8_spm(0x100) = 42; seen[3] = *(uint32_t *)tx8_spm_strong(0x100);"
        "seen[4] = tx8_hart(); *(volatile uint64_t *)tx8_uncached(&seen[5]) = 43;"
    )
    found, _ = arrays(program(tmp_path, body, "uint64_t seen[6];"), seen=("u8", 6))
    seen = found["seen"].tolist()
    assert seen[0] == seen[1] == seen[2] - 0x80000000 + 0x280000000
    assert seen[3:] == [42, 0, 43]


@needs_gcc
def test_packed_operands_and_setters(tmp_path: Path) -> None:
    body = (
        f"{ON_TILE_0} seen[0] = tx8_nhwc(1, 2, 3, 4); seen[1] = tx8_kernel_stride(5, 6, 7, 8);"
        "TsmNeInstr p = tx8_ne(2, TX8_NE_CONV, TX8_FP16, TX8_FP32); seen[2] = p.dilation + p.dilation_conv;"
        "tx8_ne_dilation(&p, tx8_dilation(3, 4)); seen[3] = p.dilation; seen[4] = p.dilation_conv;"
        "tx8_ne_relu_en(&p, 1); tx8_ne_lrelu_en(&p, 1); seen[5] = p.relu_en + 2 * p.lrelu_en;"
        "tx8_ne_psum(&p, 0x100); seen[6] = p.inpsum_en; seen[7] = p.inter_type;"
        "DMA_Param d = tx8_rdma(1, TX8_INT8, 0, 0, 1); tx8_dma_iteration1(&d, 9); seen[8] = d.iteration1;"
    )
    found, _ = arrays(program(tmp_path, body, "uint64_t seen[9];"), seen=("u8", 9))
    assert found["seen"].tolist() == [
        0x0001_0002_0003_0004,
        0x0005_0006_0007_0008,
        0x10001,
        0x30004,
        1,
        2,
        1,
        0x201,
        8,
    ]


ADD = (
    "static void add(unsigned worker, uint32_t dst, uint32_t src0, uint32_t src1) {"
    "CT_Param p = tx8_ct(worker, TX8_CT_ADD_VV, TX8_FP32); tx8_ct_src0(&p, src0); tx8_ct_src1(&p, src1);"
    "tx8_ct_dst0(&p, dst); tx8_ct_elem_count(&p, 64); tx8_execute(&p); }\nfloat seen[3][64];"
)


@needs_gcc
def test_three_workers_and_serial_mode(tmp_path: Path) -> None:
    body = (
        f"{ON_TILE_0} for (int i = 0; i < 64; i++) ((float *)tx8_spm(0x1000))[i] = (float)i;"
        "tx8_set_csr(1, TX8_SERIAL_MODE, 1); if (tx8_csr(1, TX8_SERIAL_MODE) != 1) return 1;"
        "for (unsigned w = 0; w < 3; w++) add(w, 0x2000 + 0x1000 * w, 0x1000, 0x1000);"
        "for (unsigned w = 0; w < 3; w++) tx8_wait(w);"
        "for (unsigned w = 0; w < 3; w++) for (int i = 0; i < 64; i++)"
        "  seen[w][i] = ((float *)tx8_spm(0x2000 + 0x1000 * w))[i];"
    )
    found, _ = arrays(program(tmp_path, body, ADD), seen=("f4", 192))
    assert (found["seen"].reshape(3, 64) == 2 * np.arange(64)).all()


BEYOND = f"{ON_TILE_0} add(0, 0x2fff80, 0x1000, 0x1000);"


@needs_gcc
def test_a_refused_packet_stops_the_run(tmp_path: Path) -> None:
    text = r"ct\.add\.vv\.fp32: operand 'dst' writes 256 bytes from 0x2fff80, outside the SPM"
    with pytest.raises(Fault, match=text):
        run_with(program(tmp_path, BEYOND, ADD), {}, {})


@needs_gcc
@pytest.mark.parametrize("march", MARCHES)
def test_a_dropped_packet_leaves_its_exception(march: str, tmp_path: Path) -> None:
    """The store that started it is over, be it compressed or not."""
    body = (
        f"{BEYOND} seen[0][0] = (float)tx8_exceptions(0, TX8_EXCEPTION_CT_SHIFT);"
        "tx8_clear_exceptions(0); seen[0][1] = (float)tx8_exceptions(0, TX8_EXCEPTION_CT_SHIFT);"
        "seen[0][2] = 9;"
    )
    loaded = load(program(tmp_path, body, ADD, march))
    system = loaded.start({}, on_exception="drop")
    system.run(10_000_000)
    address = loaded.image.symbols["seen"].address + 0x2_0000_0000
    assert system.ddr_range(address, 12).view("f4").tolist() == [2.0, 0.0, 9.0]


@needs_gcc
def test_an_unknown_opcode_is_a_fault(tmp_path: Path) -> None:
    body = f"{ON_TILE_0} CT_Param p = tx8_ct(0, 250, TX8_FP32); tx8_execute(&p);"
    with pytest.raises(Fault, match="CT has no instruction with opcode 250"):
        run_with(program(tmp_path, body), {}, {})


@needs_gcc
def test_returned_values(tmp_path: Path) -> None:
    body = (
        f"{ON_TILE_0} for (int i = 0; i < 100; i++) ((float *)tx8_spm(0x1000))[i] = i % 3 ? -(float)i : 0;"
        "CT_Param p = tx8_ct(1, TX8_CT_COUNT, TX8_FP32); tx8_ct_src0(&p, 0x1000); tx8_ct_elem_count(&p, 100);"
        "tx8_execute(&p); seen[0] = tx8_returned(1, TX8_WB_DATA0);"
        "tx8_ct_opcode(&p, TX8_CT_ARGMIN); tx8_execute(&p);"
        "seen[1] = tx8_returned(1, TX8_WB_DATA0); seen[2] = tx8_returned(1, TX8_WB_DATA1);"
    )
    found, _ = arrays(program(tmp_path, body, "uint32_t seen[3];"), seen=("u4", 3))
    assert found["seen"].tolist() == [66, int(np.float32(-98).view("u4")), 98]


@needs_gcc
@pytest.mark.parametrize("march", MARCHES)
def test_dte_modes(march: str, tmp_path: Path) -> None:
    """Tile 0 scatters, broadcasts and shuffles; the receivers write the received data to DDR."""
    head = "uint8_t seen[16][1024];"
    body = (
        "uint8_t *const m = tx8_spm(0x4000);"
        "for (int i = 0; i < 2048; i++) m[i] = (uint8_t)(tx8_tile() ? 0 : i * 7);"
        "tx8_barrier(0); if (tx8_tile() == 0) { const uintptr_t d = tx8_dte_attach(2);"
        "tx8_dte_config(d, TX8_DTE_SCATTER, 0x4000, 128, 4);"
        "for (unsigned i = 0; i < 4; i++) tx8_dte_destination(d, i, tx8_dte_remote(i + 1, 0x4000), 0);"
        "if (tx8_dte_run(d)) return 1;"
        "tx8_dte_config(d, TX8_DTE_BROADCAST, 0x4000, 256, 15);"
        "for (unsigned i = 0; i < 15; i++) tx8_dte_destination(d, i, tx8_dte_remote(i + 1, 0x4100), 0);"
        "if (tx8_dte_run(d)) return 2;"
        "tx8_dte_config(d, TX8_DTE_SHUFFLE, 0x4000, 64, 1);"
        "tx8_dte_loop(d, TX8_DTE_SRC_LOOPS, 0, 256, 4);"
        "tx8_dte_destination(d, 0, tx8_dte_remote(15, 0x4200), 0); if (tx8_dte_run(d)) return 3;"
        "} tx8_barrier(0); for (int i = 0; i < 1024; i++) seen[tx8_tile()][i] = m[i];"
    )
    found, _ = arrays(program(tmp_path, body, head, march), seen=("u1", 16 * 1024))
    seen, source = found["seen"].reshape(16, 1024), (np.arange(2048) * 7).astype("u1")
    for tile in range(1, 16):
        expected = np.zeros(1024, "u1")
        if tile <= 4:
            expected[:128] = source[128 * (tile - 1) :][:128]
        expected[0x100:0x200] = source[:256]
        if tile == 15:
            expected[0x200:0x300] = source[:1024].reshape(4, 256)[:, :64].reshape(-1)
        assert (seen[tile] == expected).all(), tile


STREAM = """
enum { STREAM = 40, LENGTH = 96 };
int32_t seen[4];
static enum tx8_dte_result send(unsigned packet, uint32_t bytes) {
    const uintptr_t d = tx8_dte_attach(1);
    tx8_dte_config(d, TX8_DTE_UNICAST, 0x4000, bytes, 1);
    tx8_dte_destination(d, 0, tx8_dte_remote(5, 0x8000 + packet * LENGTH), tx8_dte_stream(STREAM, packet));
    return tx8_dte_run(d);
}
"""


@needs_gcc
def test_a_stream_of_two_packets(tmp_path: Path) -> None:
    body = (
        "if (tx8_tile() == 5) { tx8_fsm_open(STREAM, 0x8000, LENGTH, 2); tx8_barrier(0x21);"
        "while (!tx8_fsm_ready(STREAM, 1)) { }"
        "seen[0] = (int)tx8_fsm_received(STREAM, 1); seen[1] = *(int *)tx8_spm(0x8000 + LENGTH);"
        "tx8_fsm_clear(STREAM, 1); seen[2] = tx8_fsm_ready(STREAM, 1) + (int)tx8_fsm_received(STREAM, 1); }"
        "if (tx8_tile() == 0) { *(int *)tx8_spm(0x4000) = 77; seen[2] = -1; tx8_barrier(0x21);"
        "if (send(0, LENGTH / 2) || send(1, LENGTH)) return 1; tx8_packet_update(5, STREAM, 0); }"
    )
    found, _ = arrays(program(tmp_path, body, STREAM), seen=("i4", 3))
    assert found["seen"].tolist() == [96, 77, 0]


@needs_gcc
def test_a_stream_that_is_not_open_fails(tmp_path: Path) -> None:
    found, _ = arrays(program(tmp_path, f"{ON_TILE_0} seen[0] = send(0, LENGTH);", STREAM), seen=("i4", 1))
    assert found["seen"].tolist() == [-11]


@needs_gcc
def test_the_special_cores_block_is_refused(tmp_path: Path) -> None:
    body = f"{ON_TILE_0} tx8_dte_trigger(tx8_dte_attach(0));"
    with pytest.raises(Fault, match="DTE block 0 belongs to the special core"):
        run_with(program(tmp_path, body), {}, {})


@needs_gcc
def test_the_scalar_unit(tmp_path: Path) -> None:
    body = (
        f"{ON_TILE_0} seen[0] = tx8_scalar(0, TX8_SC_RECIP, TX8_FP32, 0x40800000);"
        "seen[1] = tx8_scalar(2, TX8_SC_SQRT, TX8_FP16, 0x4880);"
    )
    found, _ = arrays(program(tmp_path, body, "uint32_t seen[2];"), seen=("u4", 2))
    assert found["seen"].tolist() == [0x3E800000, 0x4200], "1/4 and the root of 9"


@needs_gcc
def test_int8_gemm(tmp_path: Path) -> None:
    """One block of 128 INT8 columns: both matrices are already row-major; INT32 sums are exact."""
    head = "int8_t a[6 * 128], b[64 * 128]; int32_t out[6 * 64];"
    body = (
        f"{ON_TILE_0} for (int i = 0; i < 6 * 128; i++) a[i] = (int8_t)(i * 37);"
        "for (int i = 0; i < 64 * 128; i++) b[i] = (int8_t)(i * 11 + 5);"
        "DMA_Param load_a = tx8_rdma(0, TX8_INT8, 0x10000, tx8_engine_address(a), sizeof a);"
        "DMA_Param load_b = tx8_rdma(0, TX8_INT8, 0x20000, tx8_engine_address(b), sizeof b);"
        "TsmNeInstr p = tx8_ne(0, TX8_NE_GEMM, TX8_INT8, TX8_INT32); tx8_ne_inpsum_format(&p, TX8_INT32);"
        "tx8_ne_src_a(&p, 0x10000); tx8_ne_src_w(&p, 0x20000); tx8_ne_out(&p, 0x30000);"
        "tx8_ne_gemm_m(&p, 6); tx8_ne_gemm_k(&p, 128); tx8_ne_gemm_n(&p, 64);"
        "DMA_Param store = tx8_wdma(0, TX8_INT32, tx8_engine_address(out), 0x30000, 6 * 64);"
        "tx8_execute(&load_a); tx8_execute(&load_b); tx8_execute(&p); tx8_execute(&store); tx8_wait(0);"
    )
    found, _ = arrays(program(tmp_path, body, head), out=("i4", 384))
    a = (np.arange(6 * 128) * 37).astype("i1").reshape(6, 128).astype(int)
    b = (np.arange(64 * 128) * 11 + 5).astype("i1").reshape(64, 128).astype(int)
    assert (found["out"].reshape(6, 64) == a @ b.T).all()


# --- the page about them ------------------------------------------------------------------


@needs_gcc
def test_the_program_of_the_page(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "c.md").read_text()
    (listing,) = [block for block in blocks(page) if block.language == "c"]
    program = build(listing.text, tmp_path)
    _, printed = arrays(program)
    watched = load(program)
    watched.run(strict=True)
    assert watched.hazards == ()
    assert f"prints\n\n    {printed}" in page


def test_the_page_names_every_call() -> None:
    page = (ROOT / "docs" / "c.md").read_text()
    named = set(re.findall(r"\btx8_\w+", page))
    calls = set(re.findall(r"^static inline .*?\b(tx8_\w+)\(", HEADER.read_text(), re.MULTILINE))
    inner = {"tx8_lanes", "tx8_inter_type", "tx8_dma_execute", "tx8_put32", "tx8_get32", "tx8_put_pair"}
    assert calls - inner <= named
    generated = set(re.findall(r"\b(tx8_\w+)\(", (HEADER.parent / "tx8_packets.h").read_text()))
    prefixes = {"tx8_ct_", "tx8_ne_", "tx8_dma_", "tx8_td_", "tx8_sc_", "tx8_packets"}
    assert named - calls - generated - prefixes == {"tx8_execute"}


def test_the_page_of_chips_names_every_collective() -> None:
    page = (ROOT / "docs" / "chips.md").read_text()
    calls = re.findall(
        r"^static inline .*?\b(tx8_\w+)\(", (HEADERS / "tx8_chips.h").read_text(), re.MULTILINE
    )
    assert len(calls) > 20
    assert set(calls) <= set(re.findall(r"\btx8_\w+", page))
