"""tx8emu --random: the same arrays as tx8cc, in a documented distribution."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import asm
from asm.image import write_image
from compiler.graph import Graph, Tensor
from compiler.tools.run import random_inputs
from emulator.cli import main

COPY = """
.input a, fp32, 64
.input b, int16, 2x8
.input c, bf16, 16
.output x, fp32, 64
.output y, int16, 2x8
.output z, bf16, 16
_start: csrr t0, mhartid
    bnez t0, 9f
    rdma.fp32 dst=0x100, src=a, n=64
    wdma.fp32 dst=x, src=0x100, n=64
    rdma.int16 dst=0x300, src=b, n=16
    wdma.int16 dst=y, src=0x300, n=16
    rdma.bf16 dst=0x400, src=c, n=16
    wdma.bf16 dst=z, src=0x400, n=16
9:  ncc.wait
    li a0, 0
    li a7, 93
    ecall
"""


@pytest.fixture
def image(tmp_path: Path) -> str:
    path = tmp_path / "copy.bin"
    path.write_bytes(write_image(asm.assemble(COPY)))
    return str(path)


def outputs(image: str, folder: Path, *options: str) -> dict[str, np.ndarray]:
    assert main([image, "--output-dir", str(folder), *options]) == 0
    return {path.stem: np.load(path) for path in folder.iterdir()}


def test_the_documented_numbers(image: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = outputs(image, tmp_path / "out", "--random", "7")
    generator = np.random.default_rng(7)
    assert found["x"].tolist() == generator.standard_normal(64).astype(np.float32).tolist()
    assert found["y"].tolist() == generator.standard_normal((2, 8)).astype(np.int16).tolist()
    assert np.abs(found["z"] - generator.standard_normal(16)).max() < 2**-6
    assert capsys.readouterr().err == "tx8emu: random inputs (seed 7): a, b, c\n"


def test_given_inputs_stay_and_the_others_do_not_change(
    image: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = outputs(image, tmp_path / "out", "-q", "--random", "7")
    np.save(tmp_path / "a.npy", np.ones(64, np.float32))
    after = outputs(image, tmp_path / "again", "--random", "7", "--input", f"a={tmp_path / 'a.npy'}")
    assert capsys.readouterr().err == "tx8emu: random inputs (seed 7): b, c\n"
    assert after["x"].tolist() == [1.0] * 64
    assert after["y"].tolist() == before["y"].tolist()
    other = outputs(image, tmp_path / "other", "-q", "--random", "8")
    assert other["x"].tolist() != before["x"].tolist()


def test_the_compiler_makes_the_same(image: str, tmp_path: Path) -> None:
    found = outputs(image, tmp_path / "out", "-q", "--random", "3")
    tensors = [Tensor("a", "float32", (64,)), Tensor("b", "int32", (2, 8))]
    graph = Graph("g", 17, tuple(tensors), (), {}, (), {tensor.name: tensor for tensor in tensors})
    made = random_inputs(graph, {}, 3)
    assert made["a"].tolist() == found["x"].tolist()
    assert made["b"].tolist() == found["y"].tolist()


@pytest.mark.parametrize("seed", ["-1", "x", "1.5"])
def test_seeds_that_are_none(seed: str, image: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main([image, f"--random={seed}"])
    assert left.value.code == 2
    assert f"argument --random: '{seed}' is not" in capsys.readouterr().err


def test_without_it_an_input_is_missing(image: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([image]) == 1
    assert "give --input a=FILE.npy or --random SEED" in capsys.readouterr().err
