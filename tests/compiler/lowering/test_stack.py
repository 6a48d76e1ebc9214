"""Stacks of convolutions and pools: the same bits as group by group, and the rows that a block needs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

import emulator
from asm.image import read_image, write_image
from compiler.codegen.slices.windows import Geometry
from compiler.driver import Program, compile_graph
from compiler.graph import Array, Graph
from compiler.lowering.stack.stages import NeededRows
from compiler.search.plan import plan_text
from compiler.tools.run import execute, random_inputs
from compiler_harness import small_machine
from planned_cuts import without_sliced
from stack_nets import PADDED, Net, bottleneck, fire, stem
from time_bench import changed
from tx8isa.machine.description import Machine, load_machine


def inverted() -> Graph:
    """A depthwise convolution between two products; two images."""
    net = Net(2, 24, 9, 6)
    net.node("HardSwish", [net.conv("x", "a", (96, 24, 1, 1))], "b")
    net.node("Relu", [net.conv("b", "c", (96, 1, 3, 3), group=96, **PADDED)], "d")
    net.node("Add", [net.conv("d", "e", (24, 96, 1, 1)), "x"], "y")
    return net.graph()


def gated() -> Graph:
    """An operand of an epilogue that the stack computes, in planes that a block needs in part."""
    net = Net(1, 70, 10, 8)
    net.node("Relu", [net.conv("x", "a", (130, 70, 1, 1))], "b")
    net.node("Mul", [net.conv("b", "c", (130, 130, 3, 3), **PADDED), "b"], "y")
    return net.graph()


NETS = {
    "bottleneck": bottleneck,
    "fire": fire,
    "fire and pool": lambda: fire(True),
    "inverted": inverted,
    "stem": stem,
    "gated": gated,
}


def both(made: Graph, dtype: str, tiles: int, machine: Machine | None = None) -> Program:
    """Return the program with a stack, after checking that its outputs have the bits of separate groups.

    Dear barriers make every stack worth it.
    """
    dear = changed(machine or load_machine(None), "barrier", "fixed", 1e6)
    program = compile_graph(made, dtype, tiles, dear, patterns=without_sliced())
    other = compile_graph(made, dtype, tiles, dear, residency="off")
    assert [len(tags(found)) for found in (program, other)] == [1, 0]
    inputs = random_inputs(made, {}, 3)
    assert_equal(execute(program, inputs)[0], execute(other, inputs)[0])
    return program


def tags(program: Program) -> list[str]:
    assert program.report is not None
    return [phase.tag for phase in program.report.phases if phase.tag == "stacked"]


def assert_equal(found: dict[str, Array], expected: dict[str, Array]) -> None:
    for name, values in expected.items():
        np.testing.assert_array_equal(found[name], values, err_msg=name)


@pytest.mark.parametrize("name", NETS)
@pytest.mark.parametrize(("dtype", "tiles"), [("fp16", 16), ("fp32", 4)])
def test_same_bits_as_group_by_group(name: str, dtype: str, tiles: int) -> None:
    both(NETS[name](), dtype, tiles)


@pytest.mark.parametrize(("dtype", "tiles"), [("bf16", 5), ("tf32", 1)])
def test_other_formats_and_numbers_of_tiles(dtype: str, tiles: int) -> None:
    both(bottleneck(bias=False), dtype, tiles)


@pytest.mark.parametrize(
    ("name", "spm", "rows"),
    [
        ("bottleneck", 0x10000, 3),
        ("fire", 0xC000, 4),
        ("fire and pool", 0x14000, 2),
        ("inverted", 0x10000, 3),
        ("stem", 0x40000, 1),
        ("gated", 0x5C000, 3),
    ],
)
def test_blocks_of_rows_in_a_small_scratchpad(name: str, spm: int, rows: int) -> None:
    """Two tiles, each of which divides its share of the rows into blocks."""
    program = both(NETS[name](), "fp16", 2, small_machine(spm))
    assert program.report is not None
    cut = next(phase.cut for phase in program.report.phases if phase.tag == "stacked")
    assert cut is not None
    assert cut.sizes["rows"] == rows


def test_residual_that_is_no_whole_plane() -> None:
    both(bottleneck(200, bias=False), "fp16", 3)


@pytest.mark.parametrize("share", ["own", "weights"])
@pytest.mark.parametrize("rows", [1, 2, 3])
def test_every_cut_gives_the_same_bits(tmp_path: Path, share: str, rows: int) -> None:
    made = bottleneck()
    program = compile_graph(made, "fp16", 4, patterns=without_sliced())
    assert program.report is not None
    plan = json.loads(plan_text(program.report.plan))
    number = next(phase.template for phase in program.report.phases if phase.tag == "stacked")
    assert number is not None
    key = program.report.templates[number].key
    cut = {"tiles": {"images": 1, "rows": 4}, "sizes": {"rows": rows}, "choices": {"share": share}}
    plan["templates"][key]["cut"] = cut
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    planned = compile_graph(made, "fp16", 4, plan=tmp_path / "plan.json")
    assert tags(planned) == ["stacked"]
    inputs = random_inputs(made, {}, 3)
    assert_equal(execute(planned, inputs)[0], execute(program, inputs)[0])


@pytest.mark.parametrize("name", ["bottleneck", "fire and pool"])
def test_no_hazards(name: str) -> None:
    program = compile_graph(NETS[name](), "fp16", 16, patterns=without_sliced())
    loaded = emulator.Program(read_image(write_image(program.image), "prog.bin"), program.machine)
    loaded.run(random_inputs(program.graph, {}, 3), strict=True)
    assert tags(program) == ["stacked"]
    assert loaded.hazards == ()


def test_right_where_lines_are_written_to_their_end() -> None:
    """Engines' writes after the end of a result hit no live data."""
    made = fire(True)
    program = compile_graph(made, "fp16", 16, patterns=without_sliced())
    inputs = random_inputs(made, {}, 3)
    loaded = emulator.Program(read_image(write_image(program.image), "prog.bin"), program.machine)
    found = loaded.run(inputs, write_span="hostile")
    assert_equal(dict(found), execute(program, inputs)[0])


# --- which rows are needed --------------------------------------------------------------------------------


def touched(windows: Sequence[Geometry], begin: int, count: int) -> list[set[int]]:
    """For each row of a block, the rows of each image under its window, the last image first."""
    rows, found = set(range(begin, begin + count)), []
    for window in reversed(windows):
        taps = {
            r * window.strides[0] - window.begin[0] + tap for r in rows for tap in range(window.extent[0])
        }
        rows = {row for row in taps if 0 <= row < window.height}
        found.append(rows)
    return found


def window(height: int, kernel: int, stride: int, pad: int) -> Geometry:
    rows = (height + 2 * pad - kernel) // stride + 1
    return Geometry(height, 8, (kernel, 1), (stride, 1), (1, 1), (pad, 0), rows, 8)


@pytest.mark.parametrize("seed", range(20))
def test_rows_are_those_under_the_windows(seed: int) -> None:
    generator = np.random.default_rng(seed)
    windows, height = [], int(generator.integers(20, 40))
    for _ in range(3):
        kernel = int(generator.integers(1, 5))
        pad = int(generator.integers(0, kernel))
        windows.append(window(height, kernel, int(generator.integers(1, 3)), pad))
        height = windows[-1].rows
    for begin in range(height):
        for count in range(1, min(4, height - begin) + 1):
            rows = NeededRows(1, 0, 0, height)
            for geometry, expected in zip(reversed(windows), touched(windows, begin, count), strict=True):
                rows = rows.image(geometry)
                first = max(rows.step * begin + rows.low, 0)
                end = min(rows.step * (begin + count - 1) + rows.high + 1, rows.limit)
                assert (first, end) == (min(expected), max(expected) + 1)
                assert end - first <= rows.most(count)


def test_rows_of_two_users_are_those_of_both() -> None:
    wide, narrow = NeededRows(2, -3, 4, 40), NeededRows(2, 0, 1, 39)
    assert wide.joined(narrow) == NeededRows(2, -3, 4, 40)
    assert wide.hold(narrow)
    assert not narrow.hold(wide)


def test_rows_that_do_not_advance_alike() -> None:
    with pytest.raises(ValueError, match="rows in steps of 2 and 1"):
        NeededRows(2, 0, 0, 9).joined(NeededRows(1, 0, 0, 9))
    assert not NeededRows(2, 0, 0, 9).hold(NeededRows(1, 0, 0, 9))
