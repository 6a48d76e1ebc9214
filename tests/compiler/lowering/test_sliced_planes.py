"""Sliced sequences of tensors in planes of channels: rows of images, whole planes, and images."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from compiler.codegen.slices.tensors import DdrTensor
from compiler.driver import Program, compile_graph
from compiler.graph import Graph
from compiler.lowering.sliced.candidates import possible_shares
from compiler.passes.groups import borders
from compiler_harness import strict_outputs
from network_draws import drawn, inputs_of, problems, setting
from sliced_nets import joined_planes, planes, pooled_windows, whole_planes, windows
from time_bench import warm
from tx8isa.machine.description import load_machine
from tx8isa.numbers.formats import Format

NETS: dict[str, Callable[[], Graph]] = {
    "a narrow plane": planes,
    "planes and a narrow one": lambda: planes(150, size=7),
    "one plane": lambda: planes(64, size=17),
    "images": lambda: planes(64, images=6, size=4),
    "whole planes": whole_planes,
    "joined": joined_planes,
    "windows": windows,
    "windows of one plane": lambda: windows(64),
    "windows of several planes, some skipped": lambda: windows(96, 2, 22),
    "pools": pooled_windows,
}


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if barriers took so long that every sequence is worth it."""
    monkeypatch.setattr(borders, "barrier_cycles", lambda machine: 10**9)


def sliced_members(program: Program) -> set[str]:
    """The operators of the phases that are sliced sequences."""
    assert program.report is not None
    found = [phase.members for phase in program.report.phases if phase.tag == "sliced"]
    return {member.operator for members in found for member in members}


@pytest.mark.long
@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("name", NETS)
@pytest.mark.parametrize("dtype", ["fp16", "fp32"])
def test_the_results_of_separate_phases(name: str, dtype: str) -> None:
    """Without hazards, and with the same bytes in FP16."""
    made = NETS[name]()
    sliced, separate = (compile_graph(made, dtype, residency=way) for way in ("on", "off"))
    assert sliced_members(sliced)
    outputs = strict_outputs(made, sliced)
    assert dtype == "fp32" or outputs == strict_outputs(made, separate)


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("seed", [1, 10, 16, 21, 27, 35, 41, 52])
def test_random_networks_of_images(seed: int, tmp_path: Path) -> None:
    net, made = drawn(seed)
    found = problems(made, inputs_of(net), replace(setting(seed), search="fast"), tmp_path)
    assert not found


def test_windows_reach_into_what_the_neighbours_have() -> None:
    """A tile also computes the rows around its own ones, which the module shows.

    Prices without first uses: computing these rows takes more code than storing and loading them again.
    """
    shown: list[str] = []

    def show(name: str, module: object) -> None:
        if name == "group_load_store":
            shown.append(str(module))

    program = compile_graph(windows(32, height=16), "fp16", machine=warm(load_machine(None)), after_pass=show)
    assert {"Conv", "LayerNormalization"} <= sliced_members(program)
    assert "spm<whole, whole, slices, whole, halo " in shown[0]


def test_a_product_of_channels_stays_for_the_softmax() -> None:
    """A change of the order of axes is a stage too, and the phase saves time at the present prices."""
    program = compile_graph(planes(32, size=31), "fp16")
    assert {"Conv", "tx8be.channel_norm", "Softmax"} <= sliced_members(program)


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ((1, 16, 4, 20), [(1, 16, 1), (1, 8, 2), (1, 4, 4)]),
        ((2, 1, 1, 128), [(0, 2, 1), (3, 2, 64)]),
        ((1, 2, 2, 96), [(1, 2, 1)]),  # half a plane is no share
    ],
)
def test_shares_of_planes(shape: tuple[int, ...], expected: list[tuple[int, int, int]]) -> None:
    tensor = DdrTensor("x", Format.FP16, shape, blocked=True, channels_last=True)
    found = [(share.axis, share.count, share.size) for share in possible_shares(tensor, 16)]
    assert found == expected
