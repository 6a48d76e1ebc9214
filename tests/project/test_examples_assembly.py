"""The hand-written programs of examples/assembly, against NumPy and exact expectations."""

from __future__ import annotations

import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import asm
from asm.image import write_image
from emulator import Fault, InputError, Program, load
from emulator.program import on_chips
from paths import ROOT

FOLDER = ROOT / "examples/assembly"

Array = np.ndarray[Any, Any]


@pytest.fixture(scope="module")
def assembled(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Program by name, through the file that tx8as would write."""
    folder = tmp_path_factory.mktemp("assembled")

    @cache
    def program(name: str) -> Program:
        path = folder / f"{name}.bin"
        path.write_bytes(write_image(asm.assemble_file(FOLDER / f"{name}.s")))
        return load(path)

    return program


def test_every_program_is_tested_and_described() -> None:
    names = {path.stem for path in FOLDER.glob("*.s")}
    assert names == {"hello", "vuv_loop", "gemm_tiled", "allgather_ring", "ring"}
    text = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert [name for name in names if f"({name}.s)" not in text] == []


def test_hello_comes_from_every_tile_in_order(tmp_path: Path) -> None:
    image = tmp_path / "hello.bin"
    image.write_bytes(write_image(asm.assemble_file(FOLDER / "hello.s")))
    emulator = Path(sys.executable).with_name("tx8emu")
    shown = subprocess.run([emulator, image], capture_output=True, text=True, check=True).stdout
    assert shown == "".join(f"hello from tile {tile:02}\n" for tile in range(16))


def affine(x: Array, scale: Array, shift: Array) -> Array:
    """x * scale + shift, each step rounded once to fp16: binary32 holds product and sum exactly enough.

    A product of two fp16 numbers has 22 significant bits and is exact in binary32; NumPy then rounds it to
    fp16 once. The sum of two fp16 numbers is formed in binary64, which holds it exactly.
    """
    product = (x.astype(np.float32) * scale.astype(np.float32)).astype(np.float16)
    return (product.astype(np.float64) + shift.astype(np.float64)).astype(np.float16)


def images(seed: int) -> dict[str, Array]:
    rng = np.random.default_rng(seed)
    return {
        "x": rng.standard_normal((16, 4, 8, 131)).astype(np.float16),
        "scale": rng.standard_normal((1, 131)).astype(np.float16),
        "shift": rng.standard_normal((1, 131)).astype(np.float16),
    }


@pytest.mark.parametrize("serial", [False, True], ids=["parallel", "serial"])
def test_vuv_loop(assembled: Any, serial: bool) -> None:
    given = images(1)
    result = assembled("vuv_loop").run(given, serial=serial)["y"]
    assert np.array_equal(result, affine(**given))


def test_vuv_loop_takes_a_scale_for_every_channel(assembled: Any) -> None:
    """Ones everywhere show each channel's own numbers, in full blocks and in the tail."""
    channels = np.arange(131, dtype=np.float16)
    given = {"x": np.ones((16, 4, 8, 131), np.float16), "scale": channels[None], "shift": -channels[None] / 2}
    result = assembled("vuv_loop").run(given)["y"]
    assert np.array_equal(result, np.broadcast_to(channels / 2, (16, 4, 8, 131)))


def test_vuv_loop_refuses_another_shape(assembled: Any) -> None:
    given = images(1) | {"scale": np.ones((1, 132), np.float16)}
    with pytest.raises(InputError, match=r"'scale' is 1x132 float16, expected 1x131 float16"):
        assembled("vuv_loop").run(given)


def fused_products(a: Array, b: Array) -> Array:
    """A x B with an FP32 sum: one fused multiply-add for each k in ascending order, rounded once to fp16.

    The operands are multiples of 2**-10 below 4. So products are multiples of 2**-20 below 16, and sums of
    512 of them stay below 2**13. Product plus sum is exact in binary64, and the cast to binary32 is the only
    rounding.
    """
    total = np.zeros((a.shape[0], b.shape[1]), np.float32)
    for k in range(a.shape[1]):
        total = (total + a[:, k : k + 1].astype(np.float64) * b[k].astype(np.float64)).astype(np.float32)
    return total.astype(np.float16)


def matrices(seed: int) -> dict[str, Array]:
    rng = np.random.default_rng(seed)
    shapes = {"A": (256, 512), "B": (512, 256)}
    return {n: (rng.integers(-4095, 4096, shape) / 1024).astype(np.float16) for n, shape in shapes.items()}


@pytest.fixture(scope="module")
def gemm() -> tuple[dict[str, Array], Array]:
    given = matrices(2)
    return given, fused_products(given["A"], given["B"])


def test_the_gemm_oracle_does_round(gemm: tuple[dict[str, Array], Array]) -> None:
    """If all sums were exact, the order of the additions would not be tested."""
    given, _ = gemm
    exact = given["A"].astype(np.float64) @ given["B"].astype(np.float64)
    assert (exact != exact.astype(np.float32)).any()


@pytest.mark.parametrize("serial", [False, True], ids=["parallel", "serial"])
def test_gemm_is_right_to_the_last_bit(
    assembled: Any, gemm: tuple[dict[str, Array], Array], serial: bool
) -> None:
    given, expected = gemm
    result = assembled("gemm_tiled").run(given, serial=serial)["C"]
    assert np.array_equal(result.view(np.uint16), expected.view(np.uint16))


def test_gemm_with_the_identity_is_the_other_matrix(assembled: Any) -> None:
    given = matrices(3)
    a = np.eye(256, 512, k=100, dtype=np.float16)
    expected = np.where(np.arange(256)[:, None] + 100 < 512, given["B"][100:356], 0)
    assert np.array_equal(assembled("gemm_tiled").run({"A": a, "B": given["B"]})["C"], expected)


@pytest.mark.parametrize("threads", [1, 3])
def test_ring_gives_every_tile_everything(assembled: Any, threads: int) -> None:
    x = np.random.default_rng(4).standard_normal((16, 64)).astype(np.float32)
    result = assembled("allgather_ring").run({"x": x}, threads=threads)["y"]
    assert np.array_equal(result, np.broadcast_to(x, (16, 16, 64)))


def test_ring_goes_from_neighbour_to_neighbour(assembled: Any) -> None:
    """The program's table is a closed path through all tiles, and each step of it is one link of the mesh."""
    image = assembled("allgather_ring").image
    data = next(segment.data for segment in image.segments if segment.section == ".rodata")
    ring, place = list(data[:16]), list(data[16:32])
    assert sorted(ring) == list(range(16))
    assert [place[tile] for tile in ring] == list(range(16))
    for tile, following in zip(ring, [*ring[1:], ring[0]], strict=True):
        (x, y), (other_x, other_y) = divmod(tile, 4), divmod(following, 4)
        assert abs(x - other_x) + abs(y - other_y) == 1


def test_ring_refuses_a_missing_input(assembled: Any) -> None:
    with pytest.raises(InputError, match=r"input 'x' \(16x64 float32\) is missing"):
        assembled("allgather_ring").run({})


def test_ring_gives_every_chip_the_sum(assembled: Any) -> None:
    """In the order of the ring: chunk c is summed from chip c on, each sum rounded to binary32 once."""
    program = on_chips(assembled("ring"), 2, 2, "ring")
    rng = np.random.default_rng(4)
    x = [rng.standard_normal((16, 4, 256)).astype(np.float32) for _ in range(4)]
    found = program.run({f"chip{n}.x": x[n].reshape(16, 1024) for n in range(4)}, strict=True)
    assert program.hazards == ()
    order = (0, 1, 3, 2)
    expected = np.empty((16, 4, 256), np.float32)
    for chunk in range(4):
        total = x[order[chunk]][:, chunk]
        for step in range(1, 4):
            total = x[order[(chunk + step) % 4]][:, chunk] + total
        expected[:, chunk] = total
    for number in range(4):
        assert np.array_equal(found[f"chip{number}.y"], expected.reshape(16, 1024))


def test_ring_on_other_chips_faults(assembled: Any) -> None:
    program = on_chips(assembled("ring"), 2, 1, "ring")
    x = np.zeros((16, 1024), np.float32)
    with pytest.raises(
        Fault, match=r"dst 0: 0x[0-9a-f]+: chip \(0,1\) is not there, expected x < 2 and y < 1"
    ):
        program.run({"x": x})
