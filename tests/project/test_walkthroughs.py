"""The programs of "Why is it slow" and "What went wrong": results, times, and intended mistakes."""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import asm
from asm.image import write_image
from emulator import Fault, Program, load
from emulator.watch.stats.result import make_report
from emulator.watch.stats.sink import Statistics
from paths import ROOT
from time_bench import warm
from tx8isa.machine.description import Machine, load_machine

STEPS = ("step1", "step2", "step3", "step4", "step5")

Array = np.ndarray[Any, Any]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Program by name, such as slow/step1, through the file that tx8as would write."""
    folder = tmp_path_factory.mktemp("programs")

    @cache
    def made(name: str) -> Program:
        path = folder / f"{name.replace('/', '_')}.bin"
        path.write_bytes(write_image(asm.assemble_file(ROOT / f"examples/{name}.s")))
        return load(path)

    return made


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Program from a text."""
    folder = tmp_path_factory.mktemp("texts")

    def made(source: str) -> Program:
        path = folder / "program.bin"
        path.write_bytes(write_image(asm.assemble(source, "program.s")))
        return load(path)

    return made


def source(name: str) -> str:
    return (ROOT / f"examples/{name}.s").read_text(encoding="utf-8")


def changed(name: str, old: str, new: str) -> str:
    """The text of an example with one change; the changed part must occur once."""
    whole = source(name)
    assert whole.count(old) == 1
    return whole.replace(old, new)


# --- why is it slow -----------------------------------------------------------------------


def matrices(seed: int) -> dict[str, Array]:
    """Multiples of 1/8 between -1 and 1: every sum of 2048 products is exact in binary32."""
    draw = np.random.default_rng(seed)
    a, b = draw.integers(-8, 9, (256, 2048)) / 8, draw.integers(-8, 9, (2048, 256)) / 8
    return {"A": a.astype(np.float16), "B": b.astype(np.float16)}


def product(given: dict[str, Array]) -> Array:
    """Computed in binary64, where the sums are exact, and rounded once to fp16."""
    return (given["A"].astype(np.float64) @ given["B"].astype(np.float64)).astype(np.float16)


def test_all_steps_are_here_and_told() -> None:
    assert sorted(path.stem for path in (ROOT / "examples/slow").glob("*.s")) == sorted(STEPS)
    page = (ROOT / "docs/why_is_it_slow.md").read_text(encoding="utf-8")
    assert [step for step in STEPS if f"examples/slow/{step}.s" not in page] == []


@pytest.mark.parametrize("serial", [False, True], ids=["parallel", "serial"])
@pytest.mark.parametrize("step", STEPS)
def test_every_step_computes_the_product(program: Any, step: str, serial: bool) -> None:
    given = matrices(2)
    result = program(f"slow/{step}").run(given, serial=serial)["C"]
    assert result.dtype == np.float16
    assert np.array_equal(result.view(np.uint16), product(given).view(np.uint16))


def test_each_row_and_column_comes_from_its_own(program: Any) -> None:
    """If A and B have one number each, exactly one number of C is not zero."""
    for row, inner, column in ((0, 0, 0), (255, 2047, 255), (100, 700, 30), (17, 1500, 200)):
        a, b, c = np.zeros((256, 2048)), np.zeros((2048, 256)), np.zeros((256, 256))
        a[row, inner], b[inner, column], c[row, column] = 3, 5, 15
        given = {"A": a.astype(np.float16), "B": b.astype(np.float16)}
        for step in ("step3", "step5"):
            assert np.array_equal(program(f"slow/{step}").run(given)["C"], c)


@pytest.mark.parametrize("step", STEPS)
def test_no_step_has_a_hazard(program: Any, step: str) -> None:
    made = program(f"slow/{step}")
    made.run(matrices(3), strict=True)
    assert [hazard.text for hazard in made.hazards] == []


def measured(made: Program, given: dict[str, Array], machine: Machine | None = None) -> Any:
    """The report of a run in simulated time, on the machine that the program was made for or another."""
    made = Program(made.image, machine or made.machine)
    statistics = Statistics(made.image, made.machine)
    system = made.start(given, sinks=[statistics])
    system.run()
    return make_report(statistics, system.tiles)


def test_each_step_takes_fewer_cycles_than_the_one_before(program: Any) -> None:
    reports = [measured(program(f"slow/{step}"), matrices(2)) for step in STEPS]
    cycles = [report.cycles for report in reports]
    assert all(after < 0.95 * before for before, after in pairwise(cycles)), cycles
    assert {report.bound for report in reports} == {"DDR"}


def test_the_commands_of_the_last_step_take_less_than_a_fifth_of_those_of_the_first(program: Any) -> None:
    """The time of start and cold commands is the same work in both and excluded."""
    machine = warm(load_machine())
    every = machine.timing.core.program.value
    first, last = (
        measured(program(f"slow/{step}"), matrices(2), machine).cycles - every
        for step in (STEPS[0], STEPS[-1])
    )
    assert 5 * last < first


def test_leaving_out_a_wait_of_the_last_step_is_a_hazard(text: Any) -> None:
    """The steps' success only counts if --strict detects a missing wait."""
    for line, kind in (
        ("        ncc.wait                                        # the DTE must not read it", "unfinished"),
        ("        ncc.barrier ", "race"),
    ):
        made = text(changed("slow/step5", line, "        nop # "))
        made.run(matrices(3), strict=True)
        assert kind in {hazard.kind for hazard in made.hazards}


# --- what went wrong ----------------------------------------------------------------------


def rows() -> Array:
    return np.random.default_rng(5).random((128, 256), np.float32)


def row_sums(x: Array) -> Array:
    """Added up in binary32 from the left, as the engine does."""
    return np.add.accumulate(x, axis=1)[:, -1]


def normalised(x: Array) -> Array:
    return x * (np.float32(1) / row_sums(x))[:, None]


def test_all_mistakes_are_here_and_told() -> None:
    found = {path.stem for path in (ROOT / "examples/wrong").glob("*.s")}
    assert found == {"normalise", "normalise_ok", "beyond", "barrier"}
    page = (ROOT / "docs/what_went_wrong.md").read_text(encoding="utf-8")
    assert [name for name in found if f"examples/wrong/{name}.s" not in page] == []


def test_the_missing_wait_shows_in_one_mode_only(program: Any) -> None:
    x = rows()
    serial = program("wrong/normalise").run({"x": x}, serial=True)
    assert np.array_equal(serial["y"], normalised(x))
    parallel = program("wrong/normalise").run({"x": x})
    assert np.array_equal(parallel["sums"], row_sums(x))
    assert not np.array_equal(parallel["y"], normalised(x))


def test_strict_names_both_lines_of_the_missing_wait(program: Any) -> None:
    made = program("wrong/normalise")
    made.run({"x": rows()}, strict=True)
    lines = source("wrong/normalise").splitlines()
    places = {(h.kind, h.at.line, h.other.line) for h in made.hazards}
    ((kind, at, other),) = places
    assert kind == "unfinished"
    assert lines[at - 1].split() == ["flw", "fa0,", "0(s3)"]
    assert lines[other - 1].split()[0] == "ct.reduce.sum.fp32"
    assert {hazard.at.tile for hazard in made.hazards} == set(range(16))


@pytest.mark.parametrize("serial", [False, True], ids=["parallel", "serial"])
def test_with_the_wait_all_is_well(program: Any, serial: bool) -> None:
    x, made = rows(), program("wrong/normalise_ok")
    result = made.run({"x": x}, serial=serial, strict=True)
    assert np.array_equal(result["sums"], row_sums(x))
    assert np.array_equal(result["y"], normalised(x))
    assert not made.hazards


def test_the_mended_program_differs_by_one_wait() -> None:
    def code(name: str) -> list[str]:
        lines = (line.partition("#")[0].split() for line in source(name).splitlines())
        return [" ".join(line) for line in lines if line]

    wrong, mended = code("wrong/normalise"), code("wrong/normalise_ok")
    place = next(n for n, line in enumerate(mended) if line != wrong[n])
    assert mended[place] == "ncc.wait"
    assert mended[:place] + mended[place + 1 :] == wrong


def test_the_loop_that_steps_over_its_end(program: Any, text: Any) -> None:
    draw = np.random.default_rng(6)
    given = {"x": draw.random((16, 7, 250), np.float32), "gain": draw.random(250, np.float32)}
    with pytest.raises(Fault, match=r"beyond\.s:25.*'dst' writes 1000 bytes from 0x2fff40, outside the SPM"):
        program("wrong/beyond").run(given)
    made = text(changed("wrong/beyond", "ROWS * WIDTH * 2 ", "ROWS * WIDTH * 4 "))
    right = np.add.accumulate(given["x"], axis=1)[:, -1] * given["gain"]
    assert np.array_equal(made.run(given, strict=True)["y"], right)
    assert not made.hazards


def test_the_barrier_that_four_tiles_never_reach(program: Any, text: Any) -> None:
    given = {"x": np.random.default_rng(7).random((12, 64), np.float32)}
    with pytest.raises(Fault, match=r"never go on.*barrier\.s:25.*barrier 0xffff for tile 12 \(exited\)"):
        program("wrong/barrier").run(given)
    made = text(changed("wrong/barrier", "ncc.barrier  ", "ncc.barrier tiles=0xfff "))
    assert np.array_equal(made.run(given, strict=True)["y"], 2 * np.roll(given["x"], -1, axis=0))
    assert not made.hazards
    without = text(changed("wrong/barrier", "ncc.barrier  ", "nop # "))
    without.run(given, strict=True)
    assert {hazard.kind for hazard in without.hazards} == {"race"}
