"""Plans: a program that is made from the plan of its own compilation is the same, and nothing is searched."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from chip_nets import decoder, growing_block, llama
from compiler.cli import main
from compiler.evaluation.states import with_states
from compiler.frontend import load
from compiler.frontend.onnx.importer import graph_of_bytes
from compiler.graph import Graph
from compiler.passes.groups import borders
from compiler.passes.groups.layer_cost import LayerCost
from compiler.search import Search, SearchResult, Template
from compiler_harness import graph
from control_models import ControlModel
from example_modules import example_modules
from expert_nets import batched
from growing_models import decoder as growing_decoder
from growing_models import states as growing_states
from network_draws import Setting, drawn, setting
from onnx_models import imported
from paths import ROOT
from quantised_nets import bottlenecks, byte_mlp
from range_models import encoder, perceptron, picture, recurrent_cell, text_line
from replayed import FULL, Compile, assert_replayed, on_chips, on_one, over_ranges, plan_of
from sharded_nets import mlp, normalized_first
from sliced_nets import branches, stored_in_two_shapes, windows
from stack_nets import bottleneck, fires
from stage_nets import layers

GROWN = (250, 258, 279, 293)
"""Seeds of networks whose groups grow step by step, and whose plans once made them grow otherwise."""


def random_network(seed: int, folder: Path, search: str = "fast") -> Compile:
    how = setting(seed)
    made = imported(drawn(seed)[1], folder)
    return on_one(made, Setting(how.dtype, how.tiles, how.spm_bytes, search))


@pytest.mark.parametrize("seed", GROWN)
def test_groups_that_grow(seed: int, tmp_path: Path) -> None:
    """Whether groups grow depends on prices at the ends of the ranges of the machine's figures."""
    plan = assert_replayed(random_network(seed, tmp_path), tmp_path)
    assert any(sequence.get("grown") for sequence in plan["sequences"])


@pytest.mark.parametrize(
    "seed", [*range(0, 24, 4), *(pytest.param(s, marks=pytest.mark.long) for s in range(24, 150))]
)
def test_random_networks(seed: int, tmp_path: Path) -> None:
    assert_replayed(random_network(seed, tmp_path), tmp_path)


@pytest.mark.parametrize("seed", [13, *(pytest.param(s, marks=pytest.mark.long) for s in range(200, 300, 3))])
def test_groups_that_grow_as_far_as_they_can(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if every sequence saved time, and the larger a group the more."""
    monkeypatch.setattr(borders, "barrier_cycles", lambda machine: 10**9)
    monkeypatch.setattr(LayerCost, "gain", lambda self, joint: len(joint.work.stages))
    assert_replayed(random_network(seed, tmp_path), tmp_path)


@pytest.mark.parametrize("search", ["off", "full"])
@pytest.mark.parametrize(
    "seed", [4, pytest.param(13, marks=pytest.mark.long), pytest.param(250, marks=pytest.mark.long)]
)
def test_every_effort(seed: int, search: str, tmp_path: Path) -> None:
    """Without a search nothing is estimated, also by its plan."""
    plan = assert_replayed(random_network(seed, tmp_path, search), tmp_path)
    assert plan.get("searched", True) == (search == "full")


@pytest.mark.parametrize(
    ("made", "options"),
    [
        (bottleneck(), {}),
        (fires(), {}),
        (branches(), {}),
        (mlp(128), {}),
        (stored_in_two_shapes(), {}),
        (branches(), {"residency": "off"}),
        (branches(), {"patterns": "none"}),
        pytest.param(windows(), {}, marks=pytest.mark.long),
        pytest.param(normalized_first(), {}, marks=pytest.mark.long),
        pytest.param(llama(), {}, marks=pytest.mark.long),
    ],
)
def test_every_kind_of_sequence(made: Graph, options: dict[str, str], tmp_path: Path) -> None:
    plan = assert_replayed(on_one(made, FULL, **options), tmp_path)
    assert bool(plan.get("sequences")) == (not options)


def test_updates_of_states(tmp_path: Path) -> None:
    assert_replayed(on_one(decoder(), FULL), tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("made", [byte_mlp(4, "uint8", 32, 256)[0], bottlenecks(3, 64, 16, 12, 12)[0]])
def test_bytes(made: Any, tmp_path: Path) -> None:
    """Products and convolutions of bytes in sequences."""
    plan = assert_replayed(on_one(imported(made, tmp_path), FULL), tmp_path)
    assert plan["sequences"]


@pytest.mark.parametrize("seed", [7, 3, pytest.param(2, marks=pytest.mark.long)])
def test_graphs_that_control_flow_executes(seed: int, tmp_path: Path) -> None:
    made = graph_of_bytes(ControlModel(seed).proto.SerializeToString(), "control")
    assert assert_replayed(on_one(made, Setting("fp16", 4, 0x300000, "fast")), tmp_path)["bodies"]


RANGES: dict[str, Callable[[], Compile]] = {
    "rows": lambda: over_ranges(perceptron(), {"rows": (1, 64, 200)}),
    "a sequence in parts": lambda: over_ranges(recurrent_cell(), {"streams": (1, 8, 300)}),
    "two dimensions": lambda: over_ranges(encoder(), {"batch": (1, 1, 3), "seq": (1, 32, 160)}),
    "lines": lambda: over_ranges(text_line(), {"width": (16, 160, 640), "batch": (1, 1, 4)}),
    "images": lambda: over_ranges(
        picture(), {"height": (32, 64, 96), "width": (32, 64, 96), "batch": (1, 1, 2)}
    ),
    "states": lambda: over_ranges(
        growing_decoder(), {"new": (1, 1, 8), "past": (0, 10, 24)}, growing_states()
    ),
}


@pytest.mark.parametrize(
    "name", ["a sequence in parts", *(pytest.param(name, marks=pytest.mark.long) for name in RANGES)]
)
def test_ranges_of_sizes(name: str, tmp_path: Path) -> None:
    """A plan has the versions of each phase, and the table of sizes, which candidates have filled, too."""
    plan = assert_replayed(RANGES[name](), tmp_path)
    assert max(map(len, plan["versions"].values())) > 1
    assert plan["sizes"]


@pytest.mark.parametrize(
    ("made", "mesh", "degrees"),
    [
        (lambda: normalized_first(32, 128, 4), (2, 1), "tp=2"),
        (lambda: layers(3, 4, 8, 64), (2, 1), "pp=2"),
        pytest.param(lambda: normalized_first(32, 128, 4), (2, 1), None, marks=pytest.mark.long),
        pytest.param(llama, (2, 1), "tp=2", marks=pytest.mark.long),
        pytest.param(llama, (2, 1), "sp=2", marks=pytest.mark.long),
        pytest.param(decoder, (2, 1), "tp=2", marks=pytest.mark.long),
        pytest.param(batched, (2, 1), "ep=2", marks=pytest.mark.long),
        pytest.param(lambda: layers(3, 4, 8, 64), (2, 2), "tp=2,pp=2", marks=pytest.mark.long),
        pytest.param(lambda: layers(8, 8, 8, 64), (2, 2), None, marks=pytest.mark.long),
    ],
)
def test_several_chips(
    made: Callable[[], Graph], mesh: tuple[int, int], degrees: str | None, tmp_path: Path
) -> None:
    plan = assert_replayed(on_chips(made(), mesh, degrees), tmp_path)
    assert degrees is None or plan["parallel"] == degrees


def test_other_chips_take_the_decisions_of_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    searches, run = [], Search.run

    def counted(search: Search, templates: Sequence[Template]) -> list[SearchResult]:
        searches.append(len(templates))
        return run(search, templates)

    monkeypatch.setattr(Search, "run", counted)
    program = on_chips(growing_block(), (2, 1), "tp=2")(None)
    assert program.spread is not None
    assert (len(program.spread.parts), len(searches)) == (2, 1)
    assert any(sequence.get("grown") for sequence in plan_of(program)["sequences"])


@pytest.mark.parametrize("residency", ["on", "off"])
def test_nodes_with_the_names_of_phases(residency: str, tmp_path: Path) -> None:
    """The cast of the input is called x.cast, and a node of that name x.cast.2."""
    nodes: list[Any] = [("Softmax", [a], [b], {"axis": 1}) for a, b in ("xa", "ab", "bc", "cd", "dy")]
    made = graph(nodes, {"x": (96, 64)})
    names = ["x.cast", "x.cast.2", "x", "n", "n.2"]
    named = [replace(node, name=name) for node, name in zip(made.nodes, names, strict=True)]
    compiled = on_one(replace(made, nodes=tuple(named)), FULL, residency=residency)
    assert_replayed(compiled, tmp_path)
    report = compiled(None).report
    assert report is not None
    assert len({phase.name for phase in report.phases}) == len(report.phases)


@pytest.mark.long
@pytest.mark.parametrize("name", ["squeezenet", "resnet50", "block"])
def test_networks_for_images(name: str, tmp_path: Path) -> None:
    with example_modules(ROOT / "examples" / "networks", ("light", "transformers", "make")) as found:
        model = found.make.resnet_block() if name == "block" else found.light.light_model(name)
    assert_replayed(on_one(imported(model, tmp_path), FULL), tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("name", ["encoder", "transformer-128x256", "transformer-512x768"])
def test_transformers(name: str, tmp_path: Path) -> None:
    with example_modules(ROOT / "examples" / "networks", ("transformers",)) as found:
        model = found.transformers.transformer(found.transformers.SIZES[name])
    made = imported(model, tmp_path)
    assert_replayed(on_one(made, FULL), tmp_path)
    if name == "transformer-128x256":
        assert_replayed(on_chips(made, (2, 1), "tp=2"), tmp_path)


@pytest.mark.long
def test_digits(tmp_path: Path) -> None:
    assert_replayed(on_one(load(ROOT / "examples" / "digits" / "digits.json"), FULL), tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("rows", [1, 16])
def test_the_writer(rows: int, tmp_path: Path) -> None:
    with example_modules(ROOT / "examples" / "writer", ("shape", "text", "network", "writer")) as found:
        writer = found.writer
        model = writer.model(writer.SHAPE, writer.load_file(writer.WEIGHTS), rows, writer.SHAPE.room)
        state = writer.states(writer.SHAPE)
    assert_replayed(on_one(with_states(imported(model, tmp_path), state), FULL), tmp_path)


@pytest.mark.parametrize("found", [False, pytest.param(True, marks=pytest.mark.long)])
def test_the_command_line_on_several_chips(found: bool, tmp_path: Path) -> None:
    """A plan has the degrees, so they are neither given again nor searched."""
    path, plan = tmp_path / "g.onnx", tmp_path / "plan.json"
    with example_modules(ROOT / "examples" / "networks", ("transformers",)) as modules:
        model = modules.transformers.transformer(modules.transformers.Size(16, 64, 4, 1))
    path.write_bytes(model.SerializeToString())
    options = [str(path), "-q", "--dtype", "fp16", "--chips", "2x1"]
    degrees = [] if found else ["--parallel", "tp=2"]
    assert main([*options, *degrees, "-o", str(tmp_path / "a"), "--save-plan", str(plan)]) == 0
    assert main([*options, "-o", str(tmp_path / "b"), "--plan", str(plan)]) == 0
    for name in ("prog.s", "prog.bin"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_the_command_line_over_a_range(tmp_path: Path) -> None:
    path, plan = tmp_path / "g.onnx", tmp_path / "plan.json"
    path.write_bytes(recurrent_cell().SerializeToString())
    options = [str(path), "-q", "--dtype", "fp16", "--dim", "streams=1:8:40"]
    assert main([*options, "-o", str(tmp_path / "a"), "--save-plan", str(plan)]) == 0
    assert main([*options, "-o", str(tmp_path / "b"), "--plan", str(plan)]) == 0
    for name in ("prog.s", "prog.bin"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
