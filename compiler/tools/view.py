"""The network for viewers of graphs, each node with its phase, cycles, bytes, engines and error: ``--view``.

``model.onnx`` is the model as it was read, with metadata that Netron shows. ``graph.json`` is the same for
Model Explorer; ``cycles.json``, ``bytes.json`` and ``error.json`` colour its nodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from onnx import ModelProto, NodeProto

from compiler.driver import Program
from compiler.evaluation.survey import Fate, Survey
from compiler.evaluation.tolerance import Verdict
from compiler.frontend import Reader
from compiler.frontend.formats import ONNX, format_of
from compiler.frontend.onnx.importer import node_names
from compiler.frontend.onnx.model import external_files, read_model
from compiler.passes.report import Member, Phase
from tx8isa.errors import Tx8Error
from tx8isa.tools.files import made_folder, write_together

from .check import check_model, how
from .outputs import view_files

if TYPE_CHECKING:
    from .run import Outcome
    from .verification.nodes import NodeCheck

_LEAST_IR = 10
"""The first version of ONNX's files whose nodes have metadata."""
_COLOURS = [
    {"stop": 0, "bgColor": "#fff7ec"},
    {"stop": 0.5, "bgColor": "#fdbb84"},
    {"stop": 1, "bgColor": "#d7301f"},
]


@dataclass(frozen=True)
class NodeFacts:
    """The facts about a node of the model. ``cycles`` and ``bytes`` are those of its whole phase.

    ``phase`` is empty for a node that no phase computes; ``error`` is None without --verify-nodes.
    """

    engine: str = ""
    phase: str = ""
    cycles: float | None = None
    bytes: int | None = None
    format: str = ""
    error: Verdict | None = None

    def texts(self) -> dict[str, str]:
        """The known facts as texts, by the keys of the metadata."""
        cycles = None if self.cycles is None else f"{self.cycles:.0f}"
        error = self.error
        found = {
            "engine": self.engine,
            "phase": self.phase,
            "cycles of the phase": cycles,
            "DDR bytes of the phase": None if self.bytes is None else str(self.bytes),
            "format": self.format,
            "max abs error": None if error is None else f"{error.max_abs_error:.6g}",
            "cosine": None if error is None else f"{error.cosine:.9f}",
            "verdict": None if error is None else "pass" if error.ok else error.text,
        }
        return {f"tx8 {key}": text for key, text in found.items() if text}


def checked_source(path: Path) -> None:
    """Tx8Error unless a file is an ONNX model that a view can hold in one file."""
    if format_of(path) != ONNX:
        raise Tx8Error(f"{path}: --view annotates ONNX models; this is {format_of(path)}: export it to ONNX")
    if files := external_files(read_model(path).graph, path):
        raise Tx8Error(
            f"{path}: --view annotates models of one file; this one has its data in {files[0]} too"
        )


def write_view(
    folder: str,
    path: Path,
    read: Reader,
    program: Program,
    outcome: Outcome | None,
    checks: Sequence[NodeCheck] | None,
) -> list[Path]:
    """Write the files of a view; return their paths. ``read`` reads the model at ``path``."""
    assert program.report is not None  # the compilation was observed
    survey, model = Survey(free=1), read_model(path)
    checked = check_model(read, path, survey)
    engines = {node: how(row) for row in checked.operators for node in row.nodes}
    folded = {node for row in checked.operators if row.state == "constant" for node in row.nodes}
    phases, moved = program.report.phases, _bytes_by_phase(program.report.phases, outcome)
    if outcome is not None:
        phases = program.report.with_run(outcome.phases, None).phases
    errors = {check.node.name: check.alone for check in checks or ()}
    nodes = dict(zip(node_names(model.graph.node), model.graph.node, strict=True))
    own = _own_facts(survey.fates, phases, moved, errors)
    joined = _with_joined(nodes, own)
    facts = {
        name: replace(NodeFacts() if name in folded else joined[name], engine=engines.get(name, ""))
        for name in nodes
    }
    contents = [annotated(model, facts).SerializeToString(), _json(explorer_graph(model, path.name, facts))]
    contents += [_json(data) for data in node_data(model, facts)]
    files = view_files(folder, checks is not None)
    with made_folder(Path(folder)):
        write_together({file: [content] for file, content in zip(files, contents, strict=False)})
    return files


def _bytes_by_phase(phases: Iterable[Phase], outcome: Outcome | None) -> dict[str, int]:
    """The DDR bytes that each phase moved in a run. Without a run, the bytes of the values that it reads and
    writes."""
    if outcome is not None and outcome.report is not None:
        return {node["name"]: node["ddr_bytes"] for node in outcome.report["nodes"]}
    return {phase.name: sum(each.size for each in (*phase.reads, *phase.writes)) for phase in phases}


def _own_facts(
    fates: Iterable[Fate], phases: Sequence[Phase], moved: Mapping[str, int], errors: Mapping[str, Verdict]
) -> dict[str, NodeFacts]:
    """The facts of the model's nodes that are members of a phase, themselves or one of their parts."""
    members, found = _members(phases), dict[str, NodeFacts]()
    for fate in fates:
        names = [fate.node, *(part.name for part in fate.parts)]
        at = next((members[name] for name in names if name in members), None)
        error = next((errors[name] for name in names if name in errors), None)
        if at is not None:
            phase, member = at
            cycles = phase.estimate if phase.simulated is None else phase.simulated
            found[fate.node] = NodeFacts("", phase.name, cycles, moved.get(phase.name), member.format, error)
        elif error is not None:
            found[fate.node] = NodeFacts(error=error)
    return found


def _members(phases: Iterable[Phase]) -> dict[str, tuple[Phase, Member]]:
    """The members of phases by their names, and by the names of nodes that they are parts of: ``gelu.2``."""
    pairs = [(phase, member) for phase in phases for member in phase.members]
    found = {member.node: (phase, member) for phase, member in reversed(pairs)}
    for phase, member in pairs:
        name = member.node
        while name := name.rpartition(".")[0]:
            found.setdefault(name, (phase, member))
    return found


def _with_joined(nodes: Mapping[str, NodeProto], own: Mapping[str, NodeFacts]) -> dict[str, NodeFacts]:
    """The facts of all nodes; a node that is joined with its only users has their phase."""
    users: dict[str, list[str]] = {}
    for name, node in nodes.items():
        for value in node.input:
            users.setdefault(value, []).append(name)
    found: dict[str, NodeFacts] = {}
    for name in reversed([*nodes]):
        known = own.get(name, NodeFacts())
        after = {
            found[user].phase: found[user] for value in nodes[name].output for user in users.get(value, ())
        }
        if not known.phase and len(after) == 1:
            (joined,) = after.values()
            known = replace(joined, error=known.error, format=known.format)
        found[name] = known
    return {name: found[name] for name in nodes}


# --- the files ----------------------------------------------------------------------------


def annotated(model: ModelProto, facts: Mapping[str, NodeFacts]) -> ModelProto:
    """The model with the facts as metadata of its nodes."""
    made = ModelProto()
    made.CopyFrom(model)
    made.ir_version = max(made.ir_version, _LEAST_IR)
    for node, known in zip(made.graph.node, facts.values(), strict=True):
        for key, text in known.texts().items():
            node.metadata_props.add(key=key, value=text)
    return made


def explorer_graph(model: ModelProto, label: str, facts: Mapping[str, NodeFacts]) -> dict[str, Any]:
    """The model as a graph of Model Explorer, in which each phase is a group of nodes."""
    made_by = {
        value: (name, str(slot))
        for name, node in zip(facts, model.graph.node, strict=True)
        for slot, value in enumerate(node.output)
    }
    outer = [{"id": f"input {info.name}", "label": info.name} for info in model.graph.input]
    made_by.update({info.name: (f"input {info.name}", "0") for info in model.graph.input})
    nodes = [
        {
            "id": name,
            "label": node.op_type,
            "namespace": known.phase.replace("/", "."),
            "attrs": [{"key": key, "value": text} for key, text in {"name": name, **known.texts()}.items()],
            "incomingEdges": [
                {"sourceNodeId": source, "sourceNodeOutputId": slot, "targetNodeInputId": str(at)}
                for at, (source, slot) in enumerate(
                    made_by[value] for value in node.input if value in made_by
                )
            ],
        }
        for (name, known), node in zip(facts.items(), model.graph.node, strict=True)
    ]
    return {"label": label, "graphs": [{"id": _graph_id(model), "nodes": [*outer, *nodes]}]}


def _graph_id(model: ModelProto) -> str:
    return str(model.graph.name) or "graph"


def node_data(model: ModelProto, facts: Mapping[str, NodeFacts]) -> list[dict[str, Any]]:
    """The values that colour the nodes in Model Explorer: cycles, bytes, and errors."""
    values: dict[str, dict[str, float]] = {"cycles": {}, "bytes": {}, "max abs error": {}}
    for name, known in facts.items():
        error = None if known.error is None else known.error.max_abs_error
        for found, value in zip(values.values(), (known.cycles, known.bytes, error), strict=True):
            if value is not None:
                found[name] = value
    return [
        {
            _graph_id(model): {
                "name": what,
                "results": {name: {"value": value} for name, value in found.items()},
                "gradient": _COLOURS,
                "hideInAggregatedStatsTable": True,
            }
        }
        for what, found in values.items()
    ]


def _json(value: object) -> bytes:
    return msgspec.json.format(msgspec.json.encode(value)) + b"\n"
