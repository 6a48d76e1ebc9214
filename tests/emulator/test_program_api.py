"""Programs from Python: arrays in, arrays out, and every array that does not fit."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import asm
import emulator
from asm.image import Buffer, Image, ImageError, write_image
from chip_bench import EBREAK, ONE, TX81, words_image
from emulator import InputError, Program
from tx8isa.errors import Tx8Error
from tx8isa.numbers.formats import Format
from tx8isa.numbers.layouts import Layout, place
from tx8isa.numbers.packing import storage_dtype

EXIT = "\n ncc.wait\n li a0, 0\n li a7, 93\n ecall\n"


def copier(fmt: str, shape: tuple[int, ...], layout: str = "", dtype: str = "") -> Program:
    """A program whose output y is its input x, byte by byte."""
    placed = place(Format.parse(fmt), shape, Layout.parse(layout or "tensor"))
    spelt = "x".join(map(str, shape)) or "scalar"
    declared = ", ".join(part for part in (fmt, spelt, layout or "tensor", dtype) if part)
    n = placed.total_bytes
    text = f".input x, {declared}\n.output y, {declared}\n.text\n_start: csrr t0, mhartid\n"
    text += f" rdma.int8 dst=0, src=x, n={n}\n wdma.int8 dst=y, src=0, n={n}"
    return Program(asm.assemble(text + EXIT), ONE)


def sample(dtype: Any, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    rng = np.random.default_rng(1)
    return (rng.normal(size=shape) * 50).astype(dtype) if dtype != np.bool_ else rng.random(shape) < 0.5


@pytest.mark.parametrize("shape", [(), (1,), (5,), (2, 3, 70)])
@pytest.mark.parametrize("fmt", [f.token for f in Format])
def test_every_format_travels(fmt: str, shape: tuple[int, ...]) -> None:
    dtype = np.dtype(np.float32) if fmt == "bf16" else storage_dtype(Format.parse(fmt))
    x = sample(dtype, shape)
    if fmt == "bf16":
        x = x.astype(ml_dtypes.bfloat16).astype(np.float32)
    y = copier(fmt, shape).run({"x": x})["y"]
    assert y.dtype == x.dtype and y.shape == x.shape
    np.testing.assert_array_equal(y, x)


@pytest.mark.parametrize("layout", ["tensor", "ntensor", "cx", "ncx"])
@pytest.mark.parametrize("shape", [(2, 4), (3, 5, 7, 70)])
def test_every_layout_travels(layout: str, shape: tuple[int, ...]) -> None:
    x = sample(np.float16, shape)
    np.testing.assert_array_equal(copier("fp16", shape, layout).run({"x": x})["y"], x)


@pytest.mark.parametrize(
    ("fmt", "dtype"),
    [("fp16", "float32"), ("bf16", "float64"), ("int32", "int64"), ("int8", "int32"), ("fp32", "float64")],
)
def test_declared_travel_types(fmt: str, dtype: str) -> None:
    x = np.array([[0, 1, -2], [100, 5, -128]], dtype)
    y = copier(fmt, (2, 3), dtype=dtype).run({"x": x})["y"]
    assert y.dtype == np.dtype(dtype)
    np.testing.assert_array_equal(y, x)


def test_floats_are_rounded_once_to_nearest_even() -> None:
    x = np.array([1 + 2**-8, 1 + 3 * 2**-8, 1e39 * 0 + 3.4e38, -0.0], np.float32)
    y = copier("bf16", (4,)).run({"x": x})["y"]
    assert y.tolist() == [1.0, 1 + 2**-6, np.inf, 0.0] and np.signbit(y[3])


@pytest.mark.parametrize(
    ("fmt", "value"), [("int32", 1 << 31), ("int8", -129), ("uint8", -1), ("int16", 1 << 40)]
)
def test_an_integer_that_does_not_fit_is_refused(fmt: str, value: int) -> None:
    with pytest.raises(InputError, match=rf"input 'x' holds {value}, expected -?\d+\.\.\d+ \({fmt}\)"):
        copier(fmt, (2,), dtype="int64").run({"x": np.array([1, value])})


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "input 'x' (2x3 float16) is missing: give --input x=FILE.npy or --random SEED"),
        ({"x": np.zeros((3, 2), np.float16)}, "input 'x' is 3x2 float16, expected 2x3 float16"),
        ({"x": np.zeros(6, np.float16)}, "input 'x' is 6 float16, expected 2x3 float16"),
        ({"x": np.float16(1)}, "input 'x' is scalar float16, expected 2x3 float16"),
        ({"x": np.zeros((2, 3))}, "input 'x' is 2x3 float64, expected 2x3 float16"),
        ({"x": np.zeros((2, 3), ">f2")}, "input 'x' is 2x3 >f2, expected 2x3 float16"),
        ({"x": np.zeros((2, 3), "O")}, "input 'x' is 2x3 object, expected 2x3 float16"),
        (
            {"x": np.zeros((2, 3), np.float16), "z": np.zeros(1)},
            "the program has no input 'z'; its inputs: x",
        ),
    ],
)
def test_inputs_that_do_not_fit(given: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as error:
        copier("fp16", (2, 3)).run(given)
    assert str(error.value) == message


def test_lists_and_strided_arrays_are_arrays_too() -> None:
    x = np.arange(24, dtype=np.int32).reshape(6, 4)[::2, ::-1]
    np.testing.assert_array_equal(copier("int32", (3, 4)).run({"x": x})["y"], x)
    with pytest.raises(InputError, match="input 'x' is 2 int64, expected 3x4 int32"):
        copier("int32", (3, 4)).run({"x": [1, 2]})  # type: ignore[dict-item]


def test_runs_do_not_see_each_other() -> None:
    """Memory is in its reset state every time: y counts up from its earlier contents."""
    text = ".output y, int32, 1\n.text\n_start: csrr t0, mhartid\n la t1, y\n li t3, 0x200000000\n"
    text += " sub t1, t1, t3\n lw t2, 0(t1)\n addi t2, t2, 1\n sw t2, 0(t1)"
    program = Program(asm.assemble(text + EXIT), ONE)
    assert [program.run()["y"].tolist() for _ in range(3)] == [[1], [1], [1]]


def test_load_reads_a_file(tmp_path: Path) -> None:
    path = tmp_path / "p.bin"
    path.write_bytes(write_image(copier("fp32", (4,)).image))
    x = np.arange(4, dtype=np.float32)
    program = emulator.load(path)
    assert program.machine == TX81
    assert [b.name for b in program.inputs] == ["x"] and [b.name for b in program.outputs] == ["y"]
    np.testing.assert_array_equal(program.run({"x": x}, threads=2, serial=True)["y"], x)


@pytest.mark.parametrize("content", [b"", b"\x7fELF", bytes(1000), b"_start: nop\n"])
def test_load_refuses_other_files(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "p.bin"
    path.write_bytes(content)
    with pytest.raises(ImageError, match=r"p\.bin: "):
        emulator.load(path)


def test_load_of_nothing_and_of_a_directory(tmp_path: Path) -> None:
    with pytest.raises(Tx8Error, match="none: cannot be read: No such file or directory"):
        emulator.load(tmp_path / "none")
    with pytest.raises(Tx8Error, match="cannot be read: Is a directory"):
        emulator.load(tmp_path)


def with_buffer(**changes: Any) -> Image:
    buffer = Buffer("x", "input", TX81.windows.ddr_engine + 0x20_0000, "fp16", (2, 3), "tensor")
    return replace(words_image([EBREAK]), buffers=(replace(buffer, **changes),))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"dtype": "float17"}, "buffer 'x': NumPy has no dtype 'float17'"),
        ({"shape": (1 << 20, 1 << 20)}, "is 2x3 float16, expected 1048576x1048576 float16"),
        ({"layout": "ncx", "shape": (6,)}, "input 'x' is 2x3 float16, expected 6 float16"),
        (
            {"format": "bool", "layout": "cx", "dtype": "float16"},
            "format bool has no channel-blocked placement",
        ),
        ({"address": TX81.windows.ddr_engine + TX81.ddr.bytes - 11}, "DDR 0x127ffffff5:12 is outside"),
    ],
)
def test_buffers_that_cannot_be(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(Tx8Error) as error:
        Program(with_buffer(**changes), ONE).run({"x": np.zeros((2, 3), np.float16)})
    assert message in str(error.value)


def test_an_output_that_is_not_mapped_is_found_before_the_run() -> None:
    image = with_buffer(kind="output", address=TX81.windows.ddr_engine + TX81.ddr.bytes - 11)
    with pytest.raises(Tx8Error, match="is outside"):
        Program(image, ONE).start({})


@pytest.mark.parametrize("engine", ["0", pytest.param("numba", marks=pytest.mark.long)])
def test_another_engine_gives_the_same(tmp_path: Path, engine: str) -> None:
    """Loop, issue and kernels as Python functions, or by Numba, in a process of its own."""
    source = """
    .input x, fp32, 40
    .output y, fp32, 40
    .text
    _start: csrr s0, mhartid
        bnez s0, 9f
        li s1, 2
        rdma.fp32 dst=0, src=x, n=40
    1:  ct.add.vv.fp32 dst=0x100, src0=0, src1=0, n=40
        td.gatherscatter dst=0, src0=0x100, n=160
        addi s1, s1, -1
        bnez s1, 1b
        wdma.fp32 dst=y, src=0, n=40
    9:
    """
    program, arrays = tmp_path / "p.bin", tmp_path / "x.npy"
    image = asm.assemble(source + EXIT)
    program.write_bytes(write_image(image))
    x = np.linspace(-3, 7, 40, dtype=np.float32)
    np.save(arrays, x)
    command = [sys.executable, "-m", "emulator", str(program), "--input", f"x={arrays}"]
    command = [
        sys.executable,
        "-c",
        "import sys; from emulator.cli import main; sys.exit(main())",
        *command[3:],
    ]
    command += ["--output-dir", str(tmp_path), "--stats"]
    outputs = {}
    for jit in (engine, "direct"):
        environment = {**os.environ, "TX8_JIT": jit}
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
        outputs[jit] = done.stdout, np.load(tmp_path / "y.npy").tolist()
    assert outputs[engine] == outputs["direct"]
    assert outputs[engine][1] == (4 * x).tolist()
