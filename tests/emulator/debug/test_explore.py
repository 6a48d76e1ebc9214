"""--explore: other orders of the same program; the instruction is named when one changes the result."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

import asm
from asm.image import write_image
from chip_bench import build
from emulator import load
from emulator.cli import main
from emulator.debug.explore import Difference, Start, explore
from emulator.engines import queues
from strict_runs import EXAMPLES, orderly


def starter(name: str, folder: Path) -> Start:
    path = folder / f"{name}.bin"
    path.write_bytes(write_image(asm.assemble_file(EXAMPLES / f"hazards/{name}.s")))
    program = load(path)
    return lambda serial, strict: program.start({}, serial=serial, strict=strict)


def assembled(text: str) -> Start:
    return lambda serial, strict: build(f"_start: {text}\n ebreak", serial=serial, strict=strict)


def differences(name: str, folder: Path, orders: int = 6, seed: int = 1) -> list[Difference]:
    return list(explore(starter(name, folder), orders, seed))


@pytest.mark.long
@pytest.mark.parametrize(("name", "lines"), [("unfinished", (6, 4)), ("workers", (5, 4))])
def test_the_pair_whose_order_mattered_is_named(name: str, lines: tuple[int, int], tmp_path: Path) -> None:
    found = differences(name, tmp_path)
    assert found
    assert {difference.where for difference in found} == {"different: the SPM of tile 0"}
    hazard, at = next((d.hazard, d.at) for d in found if d.at is not None)
    assert hazard is not None and hazard.other is not None and at is not None
    assert (hazard.at.line, hazard.other.line) == lines and at.line in lines


@pytest.mark.long
@pytest.mark.parametrize("name", ["unfinished_ok", "workers_ok", "tiles_ok", "span_ok", "endless_ok"])
def test_programs_without_races_are_the_same_in_every_order(name: str, tmp_path: Path) -> None:
    assert differences(name, tmp_path, orders=4) == []


@pytest.mark.parametrize("seed", range(4))
def test_generated_programs_without_races(seed: int) -> None:
    assert list(explore(assembled(orderly(Random(seed))), 5, seed)) == []


def test_a_wait_left_out_is_found() -> None:
    """Only some of them differ, because a race with equal bytes either way changes nothing."""
    found = []
    for seed in range(3):
        broken = orderly(Random(seed)).replace("ncc.wait worker=1", "nop")
        found += list(explore(assembled(broken), 4, seed))
    assert any(difference.hazard is not None for difference in found)


@pytest.mark.long
def test_orders_are_the_same_in_every_run_and_differ_by_seed(tmp_path: Path) -> None:
    first, again = (differences("workers", tmp_path, orders=5) for _ in range(2))
    assert first and [d.text for d in first] == [d.text for d in again]
    other = differences("workers", tmp_path, orders=5, seed=2)
    assert [d.order for d in first] != [d.order for d in other]


def test_chance_is_splitmix() -> None:
    """The upper 31 bits of the finalizer of splitmix64, on Python's integers."""
    mask = (1 << 64) - 1
    for seed, number in ((0, 1), (5, 7), (1 << 40, 123456789)):
        x = seed + number * 0x9E3779B97F4A7C15 & mask
        x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 & mask
        x = (x ^ x >> 27) * 0x94D049BB133111EB & mask
        assert queues.pseudo_random(seed, number) == (x ^ x >> 31) >> 33


@pytest.mark.long
def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    starter("workers_ok", tmp_path)
    assert main([str(tmp_path / "workers_ok.bin"), "-q", "--explore", "4"]) == 0
    assert capsys.readouterr().out == "4 orders, all the same\n"
    starter("workers", tmp_path)
    assert main([str(tmp_path / "workers.bin"), "-q", "--explore", "5", "--explore-seed", "1"]) == 3
    shown = capsys.readouterr()
    assert "the first pair whose order mattered" in shown.err and "different" in shown.out
