"""Sliced sequences: right results without hazards, the same bytes as separate phases, and refusals."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from compiler.codegen.slices.tensors import DdrTensor
from compiler.driver import Program, compile_graph
from compiler.graph import Graph, GraphError, Tensor
from compiler.lowering.sliced.candidates import possible_shares
from compiler.lowering.sliced.needed import needed_shares
from compiler.lowering.sliced.tile_share import TileShare, Undividable
from compiler.operators.record import Call
from compiler.passes.groups import borders
from compiler_harness import assert_right, draw, one, strict_outputs
from network_draws import drawn, inputs_of, problems, setting
from planned_cuts import plan_with_cut
from sliced_nets import branches, heads, rows, two_shapes, uneven, whole_operand
from tx8isa.numbers.formats import Format

NETS: dict[str, Callable[[], Graph]] = {
    "rows": rows,
    "branches": branches,
    "heads": heads,
    "two shapes": two_shapes,
    "whole operand": whole_operand,
    "uneven": uneven,
    "uneven whole operand": lambda: whole_operand(50, 97),
}


@pytest.fixture(autouse=True)
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if barriers took so long that every sequence is worth it."""
    monkeypatch.setattr(borders, "barrier_cycles", lambda machine: 10**9)


def tags(program: Program) -> list[str | None]:
    assert program.report is not None
    return [phase.tag for phase in program.report.phases]


@pytest.mark.parametrize("name", NETS)
@pytest.mark.parametrize(("dtype", "tiles"), [("fp16", 16), ("bf16", 6), ("fp16", 1)])
def test_the_bytes_of_separate_phases(name: str, dtype: str, tiles: int) -> None:
    made = NETS[name]()
    sliced, separate = (compile_graph(made, dtype, tiles, residency=way) for way in ("on", "off"))
    assert "sliced" in tags(sliced)
    assert len(tags(sliced)) < len(tags(separate))
    assert strict_outputs(made, sliced) == strict_outputs(made, separate)


@pytest.mark.parametrize("rows", [2, 6])
@pytest.mark.parametrize(("op", "weights"), [("Conv", (4, 3, 2, 1)), ("MaxPool", None)])
def test_windows_that_do_not_overlap_but_begin_in_the_padding(
    op: str, weights: tuple[int, ...] | None, rows: int
) -> None:
    """Each of two shares has padding at one end: they have equally many rows, but not the same windows."""
    constants = {"w": draw(*weights)} if weights else None
    attrs = {"kernel_shape": (2, 1), "pads": (1, 0, 1, 0), "strides": (2, 2)}
    assert_right(one(op, [(1, 3, rows, 5)], constants, **attrs), "fp16", 2)


@pytest.mark.parametrize("name", NETS)
def test_near_the_reference_where_sums_have_another_order(name: str) -> None:
    """In FP32 a lowering may add the numbers of a share in another order than those of the whole axis."""
    made = NETS[name]()
    sliced = compile_graph(made, "fp32")
    assert "sliced" in tags(sliced)
    strict_outputs(made, sliced)


@pytest.mark.parametrize("seed", range(3, 90, 5))
def test_random_networks(seed: int, tmp_path: Path) -> None:
    """Networks of rows (``network_draws``), as groups that are as long as possible."""
    net, made = drawn(seed)
    found = problems(made, inputs_of(net), replace(setting(seed), search="fast"), tmp_path)
    assert not found


def with_cut(made: Graph, tiles: int, folder: Path, **choices: str) -> Program:
    """The program whose only sliced sequence is divided as a plan says."""
    cut = {"tiles": {"slices": tiles}, "sizes": {"part": 1}, "choices": {"axis": "0"} | choices}
    return compile_graph(made, "fp16", 16, plan=plan_with_cut(made, "fp16", 16, "sliced", cut, folder))


@pytest.mark.parametrize("whole", ["computed", "dte", "ddr"])
@pytest.mark.parametrize("tiles", [16, 6])
def test_every_way_to_what_all_tiles_need(whole: str, tiles: int, tmp_path: Path) -> None:
    made = whole_operand()
    program = with_cut(made, tiles, tmp_path, whole=whole)
    assert strict_outputs(made, program) == strict_outputs(made, compile_graph(made, "fp16", residency="off"))
    assert ("dte.broadcast" in program.text) == (whole == "dte")


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ((96,), [(0, 16, 6), (0, 8, 12), (0, 4, 24)]),
        ((97,), [(0, 14, 7), (0, 10, 10), (0, 8, 13), (0, 4, 25)]),
        ((2, 40), [(1, 14, 3), (0, 2, 1), (1, 10, 4), (1, 8, 5), (1, 4, 10)]),
        ((1, 1), []),
    ],
)
def test_shares_that_are_tried(shape: tuple[int, ...], expected: list[tuple[int, int, int]]) -> None:
    """Axis, number of tiles, and elements of each tile: many tiles first, and equal shares if those cost few
    tiles."""
    tensor = DdrTensor("x", Format.FP16, shape)
    found = [(share.axis, share.count, share.size) for share in possible_shares(tensor, 16)]
    assert found == expected


@pytest.mark.parametrize("whole", ["computed", "dte", "ddr"])
@pytest.mark.parametrize("tiles", [16, 14, 9])
def test_shares_of_another_number_of_rows_than_the_tiles(whole: str, tiles: int, tmp_path: Path) -> None:
    """97 rows are 14 shares of 7 or 9 of 11, 50 rows are 13 of 4; the remaining tiles have no shares."""
    made = whole_operand(50, 97)
    program = with_cut(made, tiles, tmp_path, whole=whole)
    assert strict_outputs(made, program) == strict_outputs(made, compile_graph(made, "fp16", residency="off"))


@pytest.mark.parametrize("tiles", [16, 11, 5])
def test_overlapping_shares_that_are_many_runs(tiles: int, tmp_path: Path) -> None:
    made = uneven()
    program = with_cut(made, tiles, tmp_path, axis="2")
    assert strict_outputs(made, program) == strict_outputs(made, compile_graph(made, "fp16", residency="off"))


def test_less_scratchpad_for_the_stages(tmp_path: Path) -> None:
    made = rows()
    cut = {"tiles": {"slices": 16}, "sizes": {"part": 4}, "choices": {"axis": "0"}}
    plan = plan_with_cut(made, "fp16", 16, "sliced", cut, tmp_path)
    strict_outputs(made, compile_graph(made, "fp16", plan=plan))


@pytest.mark.parametrize(
    ("tiles", "axis", "said"),
    [
        (97, "0", "axis 0 of .* has no 97 parts"),
        (32, "0", "32 shares, there are 16 tiles"),
        (9, "1", "Softmax needs its operands whole for a share of axis 1 of its result"),
        (2, "5", "axis 5 of .* has no 2 parts"),
    ],
)
def test_a_plan_with_another_division(tiles: int, axis: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(GraphError, match=said):
        with_cut(rows(), tiles, tmp_path, axis=axis)


def attention_of(view: tuple[int, ...], keys: tuple[int, ...]) -> Call:
    """Attention of two images with four heads; ``view``: how the heads find their keys and values."""
    tensors = [
        Tensor(name, "float32", shape) for name, shape in zip("qkv", ((2, 4, 12, 8), keys, keys), strict=True)
    ]
    attrs = {"view_k": view, "view_v": view}
    return Call(20, attrs, tuple(tensors), (None, None, None), ("y",))


def test_a_share_for_which_attributes_hold_the_numbers_of_the_whole() -> None:
    """Four heads have the same keys. The view counts four, also where a tile has one of them."""
    call = attention_of((0, 2, 4, 9, 8, 72, 0, 8, 1), (2, 1, 9, 8))
    with pytest.raises(Undividable, match=r"FusedAttention of shares breaks a rule: Q .* must agree"):
        needed_shares("FusedAttention", call, (2, 4, 12, 8), TileShare(1, 4, 1))
    each = attention_of((), (2, 4, 9, 8))
    found = needed_shares("FusedAttention", each, (2, 4, 12, 8), TileShare(1, 4, 1))
    assert [share is not None and share.axis for share in found] == [1, 1, 1]
