"""Stacks divided by channels: right results, without hazards, in every format and number of tiles."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import emulator
from asm.image import read_image, write_image
from compiler.codegen.slices.aligned import Grid
from compiler.driver import Program, compile_graph
from compiler.graph import Graph, GraphError
from compiler.lowering.stack import ahead
from compiler.lowering.stack.ahead import load_groups, one_after_another
from compiler.lowering.stack.whole import ChannelPiece, Share, Whole, share_of
from compiler.passes.groups import borders
from compiler.tools.run import check, random_inputs
from planned_cuts import plan_with_cut
from stack_nets import Net, bottleneck, fire, stem
from time_bench import warm
from tx8isa.machine.description import load_machine
from tx8isa.numbers.formats import Format

PADDED = {"pads": (1, 1, 1, 1)}


@pytest.fixture(autouse=True)
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if barriers took so long that every stack is worth it."""
    monkeypatch.setattr(borders, "barrier_cycles", lambda machine: 10**9)


def inverted() -> Graph:
    """A depthwise convolution and a pool, which need only the channels of their own tile; four of sixteen
    tiles have no share of the 96 channels."""
    net = Net(1, 24, 9, 6)
    net.node("HardSwish", [net.conv("x", "a", (96, 24, 1, 1))], "b")
    net.node("Relu", [net.conv("b", "c", (96, 1, 3, 3), group=96, **PADDED)], "d")
    net.node("AveragePool", ["d"], "e", kernel_shape=(2, 2))
    net.conv("e", "y", (64, 96, 1, 1))
    return net.graph()


def residuals() -> Graph:
    """Two bottlenecks of whole planes for each tile: a shortcut from DDR, and one from the scratchpads."""
    net = Net(1, 256, 7, 7)
    for number, x in enumerate(("x", "r0")):
        net.node("Relu", [net.conv(x, f"p{number}", (64, 256, 1, 1))], f"q{number}")
        net.node("Relu", [net.conv(f"q{number}", f"s{number}", (64, 64, 3, 3), **PADDED)], f"d{number}")
        net.node("Add", [net.conv(f"d{number}", f"e{number}", (256, 64, 1, 1)), x], f"f{number}")
        net.node("Relu", [f"f{number}"], "y" if number else "r0")
    return net.graph()


def shortcut() -> Graph:
    """The result of the stage before is added, and other tiles receive it at the same time."""
    net = Net(1, 70, 10, 8)
    net.node("Relu", [net.conv("x", "a", (128, 70, 1, 1))], "b")
    net.node("Add", [net.conv("b", "c", (128, 128, 3, 3), **PADDED), "b"], "y")
    return net.graph()


def gated() -> Graph:
    """An operand of a step that the stack computes."""
    net = Net(1, 70, 10, 8)
    net.node("Relu", [net.conv("x", "a", (128, 70, 1, 1))], "b")
    net.node("Mul", [net.conv("b", "c", (128, 128, 3, 3), bias=False, **PADDED), "b"], "y")
    return net.graph()


NETS = {
    "bottleneck": lambda: bottleneck(128),
    "fire": lambda: fire(expanded=64),
    "inverted": inverted,
    "stem": lambda: stem(128),
    "residuals": residuals,
    "shortcut": shortcut,
    "gated": gated,
}


def gathered(made: Graph, dtype: str, tiles: int, folder: Path) -> Program:
    """The program in which the only stack is divided by channels, as a plan says.

    Prices without first uses, so that such small convolutions are in the stack.
    """
    machine = warm(load_machine(None))
    cut = {"tiles": {"channels": tiles}, "choices": {"between": "gather"}}
    plan = plan_with_cut(made, dtype, tiles, "stacked", cut, folder, machine)
    program = compile_graph(made, dtype, tiles, machine, plan=plan)
    assert "between = gather" in str(cut_text(program))
    return program


def cut_text(program: Program) -> str:
    assert program.report is not None
    (stack,) = (phase for phase in program.report.phases if phase.tag == "stacked")
    assert stack.cut is not None
    return ", ".join(f"{name} = {value}" for name, value in stack.cut.choices.items())


@pytest.mark.parametrize("name", NETS)
@pytest.mark.parametrize(("dtype", "tiles"), [("fp16", 16), ("bf16", 12)])
def test_right_and_without_hazards(tmp_path: Path, name: str, dtype: str, tiles: int) -> None:
    made = NETS[name]()
    program = gathered(made, dtype, tiles, tmp_path)
    inputs = random_inputs(made, {}, 3)
    verdicts = check(program, inputs).verdicts.values()
    assert all(verdict.ok for verdict in verdicts)
    loaded = emulator.Program(read_image(write_image(program.image), "prog.bin"), program.machine)
    loaded.run(inputs, strict=True)
    assert loaded.hazards == ()


@pytest.mark.parametrize("name", ["fire", "residuals"])
def test_right_where_lines_are_written_to_their_end(tmp_path: Path, name: str) -> None:
    """Engines' writes after the end of a result hit no live data."""
    made = NETS[name]()
    program = gathered(made, "fp16", 16, tmp_path)
    inputs = random_inputs(made, {}, 3)
    loaded = emulator.Program(read_image(write_image(program.image), "prog.bin"), program.machine)
    expected = dict(loaded.run(inputs))
    found = dict(loaded.run(inputs, write_span="hostile"))
    for key, values in expected.items():
        np.testing.assert_array_equal(found[key], values)


@pytest.mark.long
@pytest.mark.parametrize("name", ["inverted", "residuals"])
def test_weights_of_several_stages_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Each group is loaded while the one before is computed."""
    monkeypatch.setattr(ahead, "_FIRST", 1000)
    monkeypatch.setattr(ahead, "_OTHERS", 500)
    test_right_and_without_hazards(tmp_path, name, "fp16", 16)


def test_weights_are_loaded_once(tmp_path: Path) -> None:
    text = gathered(residuals(), "fp16", 16, tmp_path).text
    convolutions = [node for node in residuals().nodes if node.op == "Conv"]
    assert len(re.findall(r"rdma\.fp16 +dst=p\d+\.w", text)) == len(convolutions) == 6


def test_groups_fill_parts_of_the_scratchpad() -> None:
    assert load_groups([30, 20, 10, 60, 40, 90, 5], 300) == [[0, 1], [2, 3], [4], [5, 6]]
    assert load_groups([30, 20, 10], 300) == [[0], [1], [2]]  # few weights
    assert load_groups([10, 200, 10], 300) == [[0], [1], [2]]  # a stage with as many as a group may have


def test_stages_of_a_group_are_loaded_with_those_of_the_group_before() -> None:
    found = one_after_another([[0], [1, 2], [3, 4, 5], [6]])
    assert [found.awaits_at(number) for number in range(7)] == [False, True, False, True, False, False, True]
    loads = {number: [(1, stages)] for number, stages in enumerate([[1, 2], [3, 4], [5], [6]])}
    assert found.first == [0]
    assert found.loads == loads


def test_what_only_its_own_tile_reads_is_not_sent(tmp_path: Path) -> None:
    """The result of a shortcut, and one that only a pool reads. Both bottlenecks and the last convolution
    send their results."""
    net = Net(1, 64, 8, 8)
    net.node("Relu", [net.conv("x", "a", (64, 64, 1, 1))], "b")
    net.conv("x", "s", (128, 64, 1, 1))
    net.node("Add", [net.conv("b", "c", (128, 64, 1, 1)), "s"], "d")
    net.node("AveragePool", ["d"], "y", kernel_shape=(8, 8))
    made = net.graph()
    program = gathered(made, "fp16", 16, tmp_path)
    verdicts = check(program, random_inputs(made, {}, 3)).verdicts.values()
    assert all(verdict.ok for verdict in verdicts)
    assert program.report is not None
    text = program.text.splitlines()
    begin = next(at for at, line in enumerate(text) if ".node" in line and '"n0"' in line)
    assert sum("dte.broadcast" in line for line in text[begin:]) == 2  # x, and the result of the first one


@pytest.mark.long
def test_channels_that_a_tile_has_not_computed(tmp_path: Path) -> None:
    """A pool of a joined value, whose shares differ from those of its parts. A result whose last plane is not
    whole."""
    for made in (fire(True, expanded=64), bottleneck(80)):
        with pytest.raises(GraphError, match="channels of a stage cannot be divided among the tiles"):
            gathered(made, "fp16", 16, tmp_path)


@pytest.mark.parametrize(
    ("channels", "tiles", "share"),
    [
        (256, 16, Share(16, 16)),
        (1024, 16, Share(64, 16)),
        (2048, 16, Share(128, 16)),
        (48, 16, Share(4, 12)),
        (96, 16, Share(8, 12)),
        (80, 16, Share(8, 10)),
        (64, 1, Share(64, 1)),
        (130, 16, None),
        (1000, 16, None),
    ],
)
def test_shares(channels: int, tiles: int, share: Share | None) -> None:
    assert share_of(channels, tiles) == share


def test_own_channels_of_a_value() -> None:
    """A tile finds its share if the value is divided equally, or in whole planes."""
    grid = Grid(4, 4, 4)
    value = Whole(Format.FP16, grid, (ChannelPiece(0x1000, 16, 4, 0x200),))
    found = value.own(3, Share(16, 4))
    assert found is not None
    assert (found.base, found.channels) == (0x1600, 16)
    assert value.own(3, Share(8, 8)) is None
    planes = Whole(Format.FP16, grid, (ChannelPiece(0x1000, 256, 1, 0),))
    found = planes.own(2, Share(64, 4))
    assert found is not None
    assert found.base == 0x1000 + 2 * 16 * 64 * 2
    assert planes.own(2, Share(32, 8)) is None
    assert Whole(Format.FP16, grid, (*value.pieces, *planes.pieces)).own(0, Share(16, 4)) is None


def test_fp32_stacks_are_not_divided_by_channels() -> None:
    """Their products are sums of three products, which would need split pieces of an image."""
    program = compile_graph(residuals(), "fp32", 16)
    assert program.report is not None
    assert all("gather" not in str(phase.cut) for phase in program.report.phases)
