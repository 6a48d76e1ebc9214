"""Kernels, launches and command lines that are refused in one line, with the place."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from compiler.cli import main
from compiler.frontend.triton.kernels.launch import KernelLaunch
from compiler.frontend.triton.kernels.program import compile_kernel
from compiler.frontend.triton.operations import TtirError
from compiler.frontend.triton.reader import parse_kernels, read_kernels
from compiler_harness import small_machine
from emulator import Fault
from triton_launches import TEXTS, case, compiled, draw, run
from triton_operators import OPERATORS
from triton_operators import case as operator_case

RANGE = "    %at = tt.make_range {end = 8 : i32, start = 0 : i32} : tensor<8xi32>\n"
POINTERS = "tensor<8x!tt.ptr<f32>>"
LOADED = (
    f"{RANGE}    %x0 = tt.splat %x : !tt.ptr<f32> -> {POINTERS}\n"
    f"    %xat = tt.addptr %x0, %at : {POINTERS}, tensor<8xi32>\n    %v = tt.load %xat : {POINTERS}\n"
)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (
            "    %s = math.powf %v, %v : tensor<8xf32>",
            "kernel.ttir:7:5: math.powf: not supported; docs/triton.md lists the operations that are",
        ),
        (
            f"    %p = tt.load %xat : {POINTERS}\n    %q = tt.addptr %p, %at : {POINTERS}, tensor<8xi32>",
            "kernel.ttir:8:5: tt.addptr: a pointer that was loaded",
        ),
        (
            "    %p = arith.addi %xat, %at : tensor<8xi32>",
            "kernel.ttir:7:5: arith.addi: needs integers, not pointers or floats",
        ),
        (
            "    %b = tt.bitcast %xat : tensor<8x!tt.ptr<f32>> -> tensor<8x!tt.ptr<i64>>",
            "kernel.ttir:7:5: tt.bitcast: pointers to f32 as pointers to i64; supported where all steps are "
            "known multiples of 2",
        ),
        (
            "    %w = arith.extf %v : tensor<8xf32> to tensor<8xf64>",
            "kernel.ttir:7:5: arith.extf: floats of type f64; supported are f16, bf16, f32",
        ),
        (
            "    %c = arith.cmpf one, %v, %v : tensor<8xf32>",
            "kernel.ttir:7:5: arith.cmpf: unknown predicate 'one'; allowed are oeq, ogt, oge, olt, ole, une, "
            "ult, ule, ugt, uge, ord, uno",
        ),
        (
            "    %o = tt.atomic_rmw and, acq_rel, gpu, %xat, %v : "
            f"({POINTERS}, tensor<8xf32>) -> tensor<8xf32>",
            "kernel.ttir:7:5: tt.atomic_rmw: 'and' of f32; supported are add, and, or, xor, max, min, umax, "
            "umin, fadd, exch, of integers and, but for the bitwise ones, of f32",
        ),
        (
            f"    %o = tt.atomic_cas acq_rel, gpu, %xat, %v, %v : "
            f"({POINTERS}, tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>",
            "kernel.ttir:7:5: tt.atomic_cas: a comparison and exchange of f32; supported are integers",
        ),
        (
            "    %c = arith.constant dense<[1, 2, 3]> : tensor<8xi32>",
            "kernel.ttir:7:5: arith.constant: 3 numbers for tensor<8xi32>",
        ),
        (
            "    %c = arith.constant dense<[1, 2, 3, 4, 5, 6, 7, 8]> : tensor<8xi16>",
            "kernel.ttir:7:5: arith.constant: a list of numbers of i16; supported are f32, i32",
        ),
        (
            "    %c0 = arith.constant 0 : i32\n    %c1 = arith.constant 1 : i32\n"
            "    %c9 = arith.constant 9 : i32\n    %c0f = arith.constant -1 : i32\n"
            "    scf.for %i = %c0 to %c9 step %c0f  : i32 {\n    }",
            "kernel.ttir:11:5: scf.for: a step of -1; allowed are 1 and above",
        ),
        (
            "    %c0 = arith.constant 0 : i32\n    %c1 = arith.constant 1 : i32\n"
            "    %c9 = arith.constant 9 : i32\n"
            f"    %r = scf.for %i = %c0 to %c9 step %c1 iter_args(%a = %x0) -> ({POINTERS})  : i32 {{\n"
            f"      scf.yield %xat : {POINTERS}\n    }}",
            "kernel.ttir:10:5: scf.for: pointers that do not move as a whole from turn to turn",
        ),
        (
            "    %d = tt.dot %v, %v, %v, inputPrecision = tf32 : "
            "tensor<8xf32> * tensor<8xf32> -> tensor<8xf32>",
            "kernel.ttir:7:5: tt.dot: a product of 1 axes; supported are 2 and 3",
        ),
    ],
)
def test_operations(lines: str, message: str) -> None:
    with pytest.raises(TtirError) as error:
        compiled(f"{LOADED}{lines}", ("x: !tt.ptr<f32>",), x=draw("fp32", 8))
    assert str(error.value) == message


def test_a_message_names_the_line_of_python() -> None:
    made = case("matmul", "fp16")
    text = (TEXTS / f"{made.text}.ttir").read_text().replace("tt.dot ", "tt.dot_scaled ")
    (kernel,) = parse_kernels(text, "matmul.ttir")
    numbers = {name: value for name, value in made.arguments.items() if isinstance(value, int)}
    shapes = {name: array.shape for name, array in made.arrays.items()}
    with pytest.raises(
        TtirError, match=r"matmul\.ttir:\d+:\d+ \(kernels\.py:\d+\): tt\.dot_scaled: not supported"
    ):
        compile_kernel(kernel, KernelLaunch(made.grid, shapes, numbers))


def test_atomic_operations_run_on_one_tile() -> None:
    (kernel,) = read_kernels(OPERATORS / "atomics.ttir")
    shapes = {name: (201,) for name, kind in kernel.parameters if kind.pointer}
    launch = KernelLaunch((4, 1, 1), shapes, {"n": 201}, tiles=4)
    with pytest.raises(TtirError) as error:
        compile_kernel(kernel, launch)
    assert str(error.value) == "atomics: 4 tiles: atomic operations run on one, in the programs' order"


@pytest.mark.parametrize(("name", "array", "place"), [("gather", "index", (2, 3)), ("embedding", "ids", 5)])
@pytest.mark.parametrize("index", [-9999, 10**6])
def test_an_index_outside_of_its_array_stops_the_program(
    name: str, array: str, place: object, index: int
) -> None:
    """The fault names the line of Python."""
    made = operator_case(name, "fp16")
    made.arrays[array][place] = index
    with pytest.raises(Fault, match=r"operators\.py:\d+.*ebreak"):
        run(made, made.program())


def test_blocks_that_do_not_fit_are_refused_with_their_size() -> None:
    made = case("matmul", "fp16")
    with pytest.raises(
        TtirError, match=r"matmul: buffer k\.\w+ of \d+ bytes does not fit the 16384 bytes of SPM"
    ):
        made.program(machine=small_machine(16384))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"grid": (0, 1, 1)}, "add: grid 0x1x1: expected extents of 1 and above, 2^31 programs at most"),
        ({"tiles": 17}, "add: 17 tiles: expected 1 to 16"),
        ({"numbers": {}}, "add: argument 'n' is a number of i32: its value is missing"),
        ({"numbers": {"n": 1.5}}, "add: argument 'n' is 1.5: expected an integer of i32"),
        ({"numbers": {"n": 1 << 40}}, f"add: argument 'n' is {1 << 40}: expected an integer of i32"),
        ({"numbers": {"m": 3}}, "add: no argument 'm'; its arguments: x, y, out, n"),
        ({"arrays": {"x": (4,), "y": (4,)}}, "add: argument 'out' is an array of f16: its shape is missing"),
    ],
)
def test_launches(changes: dict[str, object], message: str) -> None:
    (kernel,) = read_kernels(TEXTS / "add_fp16.ttir")
    launch = KernelLaunch((1, 1, 1), dict.fromkeys(("x", "y", "out"), (4,)), {"n": 4})
    with pytest.raises(TtirError) as error:
        compile_kernel(kernel, replace(launch, **changes))
    assert str(error.value) == message


@pytest.mark.parametrize(
    ("parameter", "message"),
    [
        (
            "x: !tt.ptr<f64>",
            "kernel: argument 'x' is an array of float64, which the chip does not compute with: pass one of "
            "float16, bfloat16, float32, int8, int16, int32, int64, bool, such as x.astype('float32')",
        ),
        (
            "x: f64",
            "kernel: argument 'x' of type f64; supported are pointers and numbers of f16, bf16, f32, i8, "
            "i16, i32, i64, i1",
        ),
    ],
)
def test_parameters_of_types_that_no_unit_computes_with(parameter: str, message: str) -> None:
    given = {"x": draw("fp32", 8)} if "ptr" in parameter else {"x": 1.0}
    with pytest.raises(TtirError) as error:
        compiled("", (parameter,), **given)
    assert str(error.value) == message


ADD = str(TEXTS / "add_fp16.ttir")
SHAPES = ("--arg", "x=3000", "--arg", "y=3000", "--arg", "out=30x100")


def test_a_kernel_is_compiled_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([ADD, "--grid", "3", *SHAPES, "--arg", "n=3000", "-o", str(tmp_path / "out")]) == 0
    assert "add, grid 3 x 1 x 1, n = 3000, 3 tiles: " in capsys.readouterr().out
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"prog.s", "prog.const", "prog.bin"}
    assert '.buffer output, "out", fp16, 30x100,' in (tmp_path / "out/prog.s").read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--grid", "3x0"), "--grid 3x0: expected one to three extents of 1 and above, as in 4x2"),
        (("--grid", "1x1x1x1"), "--grid 1x1x1x1: expected one to three extents of 1 and above, as in 4x2"),
        (("--arg", "x=big"), "--arg x=big: 'x' is an array; expected its shape, as in 64x32"),
        (("--arg", "n=3.5"), "--arg n=3.5: expected an integer of i32"),
        (("--arg", "n=3", "--arg", "n=3"), "--arg n=3: argument 'n' is given twice"),
        (("--arg", "nn=3"), "--arg nn=3: no argument 'nn'; did you mean 'n'?; there are x, y, out, n"),
        ((), "add: argument 'x' is an array of f16: its shape is missing"),
        (
            ("--run",),
            f"{ADD}: --run is for graphs; this is a kernel of Triton; run the image: tx8emu prog.bin",
        ),
        (("--prove",), f"{ADD}: --prove needs the graph that the kernel must compute: --prove=GRAPH"),
        *(
            (tuple(option.split()), f"{ADD}: {option.split()[0]} is for graphs; this is a kernel of Triton")
            for option in (
                *("--dtype fp16", "--prove-order", "--search full"),
                *(
                    "--patterns none",
                    "--residency off",
                    "--integers near",
                    "--dim n=3",
                    "--constant n=1",
                    "--state x=y",
                ),
                *("--bound n=3", "--chips 2x1", "--replaceable w", "--pass-times", "--verbose"),
            )
        ),
    ],
)
def test_command_lines(
    arguments: tuple[str, ...], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([ADD, *arguments, "-o", str(tmp_path)]) == 1
    assert capsys.readouterr().err == f"tx8cc: error: {message}\n"


def test_a_graph_has_no_grid(capsys: pytest.CaptureFixture[str]) -> None:
    graph = str(TEXTS.parents[1] / "mlp/mlp.json")
    assert main([graph, "--grid", "3"]) == 1
    wanted = f"{graph}: --grid and --arg are for kernels of Triton (.ttir); this is a graph"
    assert capsys.readouterr().err == f"tx8cc: error: {wanted}\n"
