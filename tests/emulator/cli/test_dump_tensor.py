"""tx8emu --dump-tensor: tensors by name or place, printed or saved; other texts are refused."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import asm
from asm.image import Image, read_image, write_image
from emulator.cli import main
from emulator.program import Program
from tx8isa.machine.description import load_machine
from tx8isa.numbers.formats import Format
from tx8isa.numbers.layouts import Layout, LayoutError, place
from tx8isa.numbers.packing import pack

SOURCE = """
.input x, fp16, 2x3
.input w, bf16, 1x2x70, cx
.output y, fp16, 2x3
_start: csrr t0, mhartid
    rdma.fp16 dst=0x100, src=x, n=6
    rdma.bf16 dst=0x400, src=w, n=192
    ct.add.vv.fp16 dst=0x200, src0=0x100, src1=0x100, n=6
    bnez t0, 9f
    wdma.fp16 dst=y, src=0x200, n=6
9:  ncc.wait
    li a0, 0
    li a7, 93
    ecall
"""
W = np.arange(140, dtype=np.float32).reshape(1, 2, 70)


@pytest.fixture
def run(tmp_path: Path) -> list[str]:
    """The command line of a run of the program."""
    (tmp_path / "p.bin").write_bytes(write_image(asm.assemble(SOURCE)))
    np.save(tmp_path / "x.npy", np.float16([[1, 2, 3], [4, 5, 6.5]]))
    np.save(tmp_path / "w.npy", W)
    inputs = [part for name in "xw" for part in ("--input", f"{name}={tmp_path / name}.npy")]
    return ["-q", str(tmp_path / "p.bin"), *inputs]


def address(run: list[str], name: str) -> int:
    image: Image = read_image(Path(run[1]).read_bytes(), "p")
    (buffer,) = (buffer for buffer in image.buffers if buffer.name == name)
    return buffer.address


def test_by_name(run: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*run, "--dump-tensor", "y", "--dump-tensor", "x"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"DDR 0x{address(run, 'y'):x}: 2x3 fp16, ntensor",
        "[[ 2.  4.  6.]",
        " [ 8. 10. 13.]]",
        f"DDR 0x{address(run, 'x'):x}: 2x3 fp16, ntensor",
        "[[1.  2.  3. ]",
        " [4.  5.  6.5]]",
    ]


def test_by_place(run: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    places = ["15:0x200:fp16:6", f"ddr:0x{address(run, 'y'):x}:int16:2"]
    assert main([*run, *(part for place in places for part in ("--dump-tensor", place))]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "tile 15 SPM 0x200: 6 fp16, tensor",
        "[ 2.  4.  6.  8. 10. 13.]",
        f"DDR 0x{address(run, 'y'):x}: 2 int16, tensor",
        f"[{0x4000} {0x4400}]",
    ]


def test_layouts_and_formats_that_numpy_lacks(run: list[str], tmp_path: Path) -> None:
    files = [tmp_path / "spm.npy", tmp_path / "name.npy"]
    specs = [f"3:1024:bf16:1x2x70:cx={files[0]}", f"w={files[1]}"]
    assert main([*run, *(part for spec in specs for part in ("--dump-tensor", spec))]) == 0
    for file in files:
        found = np.load(file)
        assert found.dtype == np.float32
        assert found.tolist() == W.tolist()


@pytest.mark.parametrize("fmt", Format)
@pytest.mark.parametrize("layout", Layout)
def test_every_format_and_layout(fmt: Format, layout: Layout, tmp_path: Path) -> None:
    from emulator.chip.tensors import find_tensor

    shape = (1, 2, 5) if layout is not Layout.NTENSOR else (2, 2, 5)
    try:
        place(fmt, shape, layout)
    except LayoutError:
        pytest.skip("no such placement")
    machine = load_machine(None)
    values = np.arange(int(np.prod(shape))).reshape(shape) % 2
    stored = values.astype(ml_dtypes.bfloat16 if fmt is Format.BF16 else _dtype(fmt))
    data = pack(stored, fmt, layout)
    system = Program(asm.assemble("_start: ecall"), machine).start({})
    system.tiles[2].spm.data[512 : 512 + data.size] = data
    text = f"2:512:{fmt.token}:{'x'.join(map(str, shape))}:{layout.token}"
    view = find_tensor(text, system.image, machine)
    assert view.size == data.size
    assert view.read(system).astype(float).tolist() == values.astype(float).tolist()


def _dtype(fmt: Format) -> np.dtype:
    from tx8isa.numbers.packing import storage_dtype

    return storage_dtype(fmt)


def test_after_a_fault_it_shows_what_is_there(run: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*run, "--max-instructions", "1", "--dump-tensor", "x"]) == 3
    assert "[[1.  2.  3. ]" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("z", "no tensor 'z': expected NAME, TILE:ADDRESS:FORMAT:SHAPE[:LAYOUT] or "),
        ("z", "; names: x, w, y"),
        ("16:0:fp16:2", "tensor '16:0:fp16:2': tile 16 is outside 0..15"),
        ("a:0:fp16:2", "tile 'a', expected a number or ddr"),
        ("0:-1:fp16:2", "address '-1', expected a number"),
        ("0:0:fp17:2", "unknown format 'fp17': expected one of int8"),
        ("0:0:fp16:2x", "shape '2x', expected numbers such as 2x3"),
        ("0:0:fp16:2:nchw", "unknown layout 'nchw': expected one of tensor"),
        ("0:0x2fffff:fp16:1", "0x2fffff and 2 bytes from there: outside 0x0..0x2fffff, the SPM"),
        ("ddr:0x100:fp16:1", "0x100 and 2 bytes from there: outside 0x280000000.."),
        ("0:0:fp16:999999999999", "bytes, at most 1073741824 are shown"),
        ("x=y.txt", "a tensor saved in 'y.txt', expected the name of a .npy file"),
    ],
)
def test_refused_before_the_run(
    text: str, message: str, run: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*run, "--dump-tensor", text, "--max-instructions", "1"]) == 1
    err = capsys.readouterr().err
    assert message in err
    assert err.count("\n") == 1


def test_no_file_of_the_run_is_replaced(run: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    file = run[3].partition("=")[2]
    before = Path(file).read_bytes()
    assert main([*run, "--dump-tensor", f"y={file}"]) == 1
    assert Path(file).read_bytes() == before
    assert "--dump-tensor" in capsys.readouterr().err
