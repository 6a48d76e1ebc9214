"""Kernels of the vendor's compiler flow: launched over grids, against NumPy; what the launcher refuses."""

from __future__ import annotations

import subprocess
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import tx8
from c_tools import HEADERS, needs_gcc
from crt_tools import compiled
from emulator import Fault
from tx8isa.errors import Tx8Error

ADD = """\
#include "instr_adapter.h"
#include "instr_operator.h"

enum { BLOCK = 256, X = 0x10000, Y = 0x20000, SUM = 0x30000 };

/* One program adds a block of two vectors. */
void add_kernel(void *buffer) {
    const uint64_t *const arguments = buffer;
    const uint64_t offset = 4 * BLOCK * (uint64_t)__get_pid(0);
    TsmRdma *const rdma = g_intrinsic()->rdma_pointer;
    TsmArith *const arith = g_intrinsic()->arith_pointer;
    TsmWdma *const wdma = g_intrinsic()->wdma_pointer;
    DMA_Param load = {I_RDMA, {0,}, {0,}}, store = {I_WDMA, {0,}, {0,}};
    CT_Param sum = {I_CGRA, {0,}, {0,}};
    rdma->Rdma1d(&load, arguments[0] + offset, X, BLOCK, Fmt_FP32);
    TsmExecute(&load);
    rdma->Rdma1d(&load, arguments[1] + offset, Y, BLOCK, Fmt_FP32);
    TsmExecute(&load);
    arith->AddVV(&sum, X, Y, SUM, BLOCK, RND_NEAREST_EVEN, Fmt_FP32);
    TsmExecute(&sum);
    wdma->Wdma1d(&store, SUM, arguments[2] + offset, BLOCK, Fmt_FP32);
    TsmExecute(&store);
}
"""

REPEATED = """\
#include "instr_adapter.h"
#include "instr_operator.h"
void repeated(void *buffer) {
    const uint64_t *const arguments = buffer;
    TsmArith *const arith = g_intrinsic()->arith_pointer;
    CT_Param sum = {I_CGRA, {0,}, {0,}};
    for (uint64_t i = 0; i < arguments[0]; i++) {
        arith->AddVV(&sum, 0x10000, 0x20000, 0x30000, 4, RND_NEAREST_EVEN, Fmt_FP32);
        TsmExecute(&sum);
    }
}
"""
DIVISION = ADD.replace("AddVV", "DivVV").replace("BLOCK = 256", "BLOCK = 64")

PLACES = """\
#include "instr_adapter.h"
#include <stdio.h>
#include <tx8.h>
/* Each program stores where it is, which tile runs it, and all its arguments. */
void places(void *buffer) {
    const uint64_t *const a = buffer;
    const uint64_t x = __get_pid(0), y = __get_pid(1), z = __get_pid(2);
    uint64_t *const row = (uint64_t *)(a[0] - 0x280000000 + 0x80000000) + 9 * (x + a[5] * (y + a[6] * z));
    row[0] = x; row[1] = y; row[2] = z; row[3] = tx8_tile();
    for (int i = 1; i < 5; i++) row[3 + i] = a[i];
    row[8] = a[7];
    if (x + y + z == 0) printf("the first\\n");
}
"""


def written(folder: Path, text: str, name: str = "kernel.c") -> Path:
    path = folder / name
    path.write_text(text)
    return path


@needs_gcc
@pytest.mark.parametrize("threads", [1, 2])
def test_a_vector_is_added_by_many_programs(threads: int, tmp_path: Path) -> None:
    kernel = tx8.c_kernel(written(tmp_path, ADD), "add_kernel")
    rng = np.random.default_rng(1)
    for programs in (1, 37):
        x, y = rng.standard_normal((2, 256 * programs)).astype(np.float32)
        total = np.full(256 * programs, np.nan, np.float32)
        launch = kernel.launch(programs, x, y, total, threads=threads)
        assert (total == x + y).all()
        assert launch.instructions > 0 and launch.printed == ""


@pytest.mark.long
@needs_gcc
def test_places_and_arguments(tmp_path: Path) -> None:
    kernel = tx8.c_kernel([written(tmp_path, PLACES)], "places")
    table = np.zeros((2, 3, 7, 9), np.uint64)
    launch = kernel.launch((7, 3, 2), table, -1, 1.5, np.int32(-2), ml_dtypes.bfloat16(1.0))
    z, y, x = np.indices((2, 3, 7))
    number = x + 7 * (y + 3 * z)
    assert (table[..., :4] == np.stack([x, y, z, number % 16], -1)).all()
    ones = (1 << 64) - 1
    expected = [ones, int(np.float32(1.5).view("u4")), ones - 1, 0x3F80, 2]
    assert (table[..., 4:] == np.array(expected, np.uint64)).all()
    assert launch.printed == "the first\n"


@needs_gcc
def test_objects_and_archives_are_linked(tmp_path: Path) -> None:
    """A kernel in two parts, one compiled earlier, like the C runtime in the vendor's flow."""
    library = "#include <stdint.h>\nuint64_t twice(uint64_t x) { return 2 * x; }\n"
    compiled(written(tmp_path, library, "twice.c"), tmp_path / "twice.o")
    archive = tmp_path / "libtwice.a"
    subprocess.run(["riscv64-unknown-elf-ar", "rc", archive, tmp_path / "twice.o"], check=True)
    text = (
        '#include "instr_adapter.h"\nuint64_t twice(uint64_t);\nvoid k(void *buffer) { uint64_t *a = buffer;'
        "*(uint64_t *)(a[0] - 0x200000000) = twice(a[1]) + TWO; }\n"
    )
    result = np.zeros(1, np.uint64)
    kernel = tx8.c_kernel([written(tmp_path, text), archive], "k", flags=["-DTWO=2"])
    kernel.launch(1, result, 20)
    assert result[0] == 42


@pytest.mark.long
@needs_gcc
@pytest.mark.parametrize("name", ["-fplugin=x.c", "@options.c", "a b.c"])
def test_names_of_files_are_no_options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.chdir(tmp_path)
    written(tmp_path, "void k(void *buffer) { (void)buffer; }\n", name)
    assert tx8.c_kernel(name, "k").launch(1).instructions > 0


@needs_gcc
def test_functions_of_the_c_runtime_win(tmp_path: Path) -> None:
    """A source that defines __get_pid itself is linked with its own."""
    text = (
        '#include "instr_adapter.h"\nuint32_t __get_pid(uint32_t axis) { return 40 + axis; }\n'
        "void k(void *buffer) { uint64_t *a = buffer; *(uint64_t *)(a[0] - 0x200000000) = __get_pid(1); }\n"
    )
    result = np.zeros(1, np.uint64)
    tx8.c_kernel(written(tmp_path, text), "k").launch(1, result)
    assert result[0] == 41


@needs_gcc
def test_a_fault_of_a_program_is_told(tmp_path: Path) -> None:
    text = '#include "instr_adapter.h"\nvoid k(void *a) { (void)a; RT_ASSERT(__get_pid(0) != 5); }\n'
    with pytest.raises(Fault, match=r"^tile 5 .*exited with status 1"):
        tx8.c_kernel(written(tmp_path, text), "k").launch(8)


@needs_gcc
def test_a_command_takes_what_the_runtime_of_the_vendor_takes(tmp_path: Path) -> None:
    """Published are 900 to 1,200 cycles. The library here takes longer, which counts if requested."""
    source, each = written(tmp_path, REPEATED), {}
    for issue in ("c-runtime", "text"):
        kernel = tx8.c_kernel(source, "repeated", issue=issue)
        few, many = (kernel.launch(1, count).cycles for count in (2, 12))
        each[issue] = (many - few) / 10
    assert 900 <= each["c-runtime"] <= 1200 < each["text"]


@needs_gcc
def test_a_published_program_is_within_its_range(tmp_path: Path) -> None:
    """A division of 1,024 elements by 16 tiles took 18 to 19 microseconds on a card."""
    x, y, quotient = np.arange(1, 3073, dtype=np.float32).reshape(3, 1024)
    launch = tx8.c_kernel(written(tmp_path, DIVISION), "add_kernel").launch(16, x, y, quotient)
    least, most = launch.cycles_range
    assert least <= 19_000 and most >= 18_000 and least < launch.cycles < most
    assert (quotient == x / y).all()
    assert "ct.div.vv" in str(launch.stats)


# --- what is refused ----------------------------------------------------------------------


@needs_gcc
@pytest.mark.parametrize(
    ("grid", "arguments", "message"),
    [
        (0, (), r"^grid 0: expected one to three extents of at least 1$"),
        ((1, 2, 3, 4), (), r"^grid \(1, 2, 3, 4\): expected one to three extents"),
        (1, ("x",), r"^argument 0 is a str: expected an array of NumPy, an integer or a float$"),
        (1, (0, [1.0]), r"^argument 1 is a list: expected"),
        (1, (1 << 64,), r"^argument 0 is 18446744073709551616: expected a number of 64 bits$"),
        (1, (np.broadcast_to(np.float32(1), (3,)),), r"^argument 0 is a read-only array, .*: give a copy$"),
        (1, (np.array([None]),), r"^argument 0 is an array of objects: expected numbers$"),
        (1, (0,) * 62, r"^add_kernel: 62 arguments, expected at most 61$"),
    ],
)
def test_launches_are_refused(grid: object, arguments: tuple[object, ...], message: str, add: object) -> None:
    with pytest.raises(Tx8Error, match=message):
        add.launch(grid, *arguments)  # type: ignore[attr-defined]


@pytest.fixture(scope="module")
def add(tmp_path_factory: pytest.TempPathFactory) -> object:
    return tx8.c_kernel(written(tmp_path_factory.mktemp("add"), ADD), "add_kernel")


@needs_gcc
def test_sources_are_refused(tmp_path: Path) -> None:
    path = written(tmp_path, ADD)
    with pytest.raises(
        Tx8Error, match=r"kernel\.c: no function 'ad_kernel'; did you mean 'add_kernel'\?; def"
    ):
        tx8.c_kernel(path, "ad_kernel")
    with pytest.raises(Tx8Error, match=r"missing\.c: no such file$"):
        tx8.c_kernel(tmp_path / "missing.c", "k")
    with pytest.raises(Tx8Error, match=r"kernel\.py: a kernel is made from \.c, \.o, \.a files$"):
        tx8.c_kernel(tmp_path / "kernel.py", "k")
    path.write_text(ADD.replace("AddVV", "AddVW"))
    with pytest.raises(Tx8Error, match=r"kernel\.c:\d+:\d+: error: 'TsmArith' has no member named 'AddVW'"):
        tx8.c_kernel(path, "add_kernel")
    path.write_text("int other(void);\nvoid k(void *a) { *(int *)a = other(); }\n")
    with pytest.raises(Tx8Error, match="undefined reference to `other'"):
        tx8.c_kernel(path, "k")


@pytest.mark.long
@needs_gcc
def test_objects_with_compressed_instructions_are_launched(tmp_path: Path) -> None:
    """Objects built with the flags of the vendor's flow."""
    path = written(tmp_path, ADD)
    include = [f"-I{HEADERS}", f"-I{HEADERS / 'tsm'}"]
    flags = ["-march=rv64imfdc", "-mabi=lp64d", "-mcmodel=medany", "--specs=picolibc.specs", "-O2"]
    command = ["riscv64-unknown-elf-gcc", *flags, *include, "-c", str(path), "-o", tmp_path / "kernel.o"]
    subprocess.run(command, check=True)
    kernel = tx8.c_kernel(tmp_path / "kernel.o", "add_kernel")
    x, y = np.random.default_rng(2).standard_normal((2, 256 * 3)).astype(np.float32)
    total = np.full(256 * 3, np.nan, np.float32)
    kernel.launch(3, x, y, total)
    assert (total == x + y).all()


def test_without_gcc_one_line_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(
        Tx8Error, match=r"^C kernels need riscv64-unknown-elf-gcc, which is not there: install "
    ):
        tx8.c_kernel(written(tmp_path, ADD), "add_kernel")
