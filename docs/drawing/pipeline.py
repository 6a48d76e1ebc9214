"""A phase as a pipeline: one tile loads, computes and stores slices, from the trace of a compiled network."""

from __future__ import annotations

from itertools import accumulate

import tx8

from .lanes import LANE, Axis, draw_lanes
from .runs import Slice, array, of_program, of_tile
from .svg import WIDTH, Sheet

TILE = 5
"""The tile that is drawn: any does the same."""
SHAPE = (16, 65536)
TRACKS = ("core", "RDMA", "CT", "WDMA")
HUES = (210, 30, 120, 280, 0, 180, 55, 320)
COPIES = "AB"
"""Names of the two copies of the buffer that is loaded."""


def draw() -> str:
    """The picture as SVG."""
    slices = of_tile(of_program(program(), array(*SHAPE)), TILE)
    turns = turn_by_number(slices)
    engines = [s for s in slices if s.track in TRACKS and s.name != "wait: program"]
    copies = copy_by_turn(slices, turns)
    sheet = Sheet("A phase on one tile: it loads a slice while it computes and stores earlier ones")
    sheet.write(12, 20, f"*Gelu of {SHAPE[0]} x {SHAPE[1]}, tile {TILE}: {len(copies)} slices", size=14)
    axis = Axis(0, max(s.end for s in engines), 92, WIDTH - 16)
    bottom = 44 + len(TRACKS) * LANE

    def colours(found: Slice) -> tuple[str, str]:
        if found.track == "core":
            return "#dddddd", "#999999"
        hue = HUES[turns[number(found)] % len(HUES)]
        return f"hsl({hue},70%,82%)", f"hsl({hue},45%,45%)"

    def label(found: Slice) -> str:
        if found.track not in ("RDMA", "WDMA"):
            return ""
        turn = turns[number(found)]
        return f"{turn + 1}: {copies[turn]}" if found.track == "RDMA" else str(turn + 1)

    axis.grid(sheet, 34, bottom, 20)
    draw_lanes(sheet, engines, TRACKS, axis, 40, colours=colours, label=label)
    return sheet.text(bottom + 24)


def program() -> tx8.Program:
    """One operator, whose tiles have several slices each."""
    graph = tx8.GraphBuilder("gelu")
    graph.output(graph.Gelu(graph.input("x", "float32", SHAPE)), "y")
    return tx8.compile(graph, dtype="fp32")


def number(found: Slice) -> int:
    """The number of an instruction on its tile; for a wait, that of the next instruction."""
    return int(found.more.get("instruction number", found.more.get("next instruction", 0)))


def turn_by_number(slices: list[Slice]) -> dict[int, int]:
    """The slice of each instruction: each load has the next one, and each store is the last of its slice."""
    ordered = sorted((s for s in slices if "instruction number" in s.more), key=number)
    loads = [number(s) for s in ordered if s.track == "RDMA"]
    found = {load: turn for turn, load in enumerate(loads)}
    others = [s for s in ordered if s.track != "RDMA"]
    stores = accumulate((s.track == "WDMA" for s in others), initial=0)
    return found | {number(s): turn for s, turn in zip(others, list(stores)[:-1], strict=True)}


def copy_by_turn(slices: list[Slice], turns: dict[int, int]) -> list[str]:
    """The copy of the buffer that each iteration loads."""
    loads = {turns[number(s)]: s.operand("dst") for s in slices if s.track == "RDMA"}
    names = dict(zip(dict.fromkeys(loads[turn] for turn in sorted(loads)), COPIES, strict=True))
    return [names[loads[turn]] for turn in sorted(loads)]
