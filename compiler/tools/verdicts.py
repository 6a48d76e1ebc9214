"""The verdicts of ``--run`` and ``--verify-nodes`` as data, for ``--json``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from compiler.driver import Program
from compiler.evaluation.judgement import Judgement
from compiler.evaluation.tolerance import Verdict

from .run import Outcome, RunFault
from .verification.nodes import NodeCheck, Verification


def run_document(program: Program, dtype: str, outcome: Outcome) -> str:
    """Return a run with its outputs, cycles and hazards; docs/compiler_tools.md lists the keys."""
    outputs = [
        {"name": name, "shape": list(outcome.outputs[name].shape), **_judgement(found)}
        for name, found in outcome.judgements.items()
    ]
    ends = (
        None
        if outcome.cycles_range is None
        else dict(zip(("least", "most", "c_runtime"), outcome.cycles_range, strict=True))
    )
    time = {"cycles": outcome.cycles, "cycles_range": ends}
    found = {"instructions": outcome.instructions, **time, "hazards": outcome.hazards}
    return _document(
        program,
        dtype,
        outcome.ok,
        {"fault": None, "fault_kind": None, "fault_category": None, "outputs": outputs, **found},
    )


def fault_document(program: Program, dtype: str, fault: RunFault) -> str:
    """Return a run that stopped with a fault: it has no outputs."""
    found = {"fault": str(fault), "fault_kind": fault.kind, "fault_category": fault.kind.category}
    return _document(program, dtype, False, {**found, "outputs": []})


def nodes_document(program: Program, dtype: str, found: Verification) -> str:
    """Return the verdicts on every node, and the first failed one."""
    outputs = [{"name": name, **_judgement(item)} for name, item in found.outputs.items()]
    wrong = None if found.at is None else found.at.name
    nodes = [_node(item) for item in found.checks]
    return _document(program, dtype, found.ok, {"wrong": wrong, "nodes": nodes, "outputs": outputs})


def _document(program: Program, dtype: str, passed: bool, rest: dict[str, Any]) -> str:
    """Return the document; ``dtype`` is the format chosen for the graph, whose floats may have another."""
    formats = {"dtype": dtype, "floats": program.dtype}
    head = {"graph": program.graph.name, **formats, "tiles": program.tiles, "pass": passed}
    return msgspec.json.format(msgspec.json.encode({**head, **rest})).decode()


def _judgement(found: Judgement) -> dict[str, Any]:
    parts = {"rounding_alone": _errors(found.rounding)}
    if found.quantised is not None:
        parts |= {
            "quantising_alone": _errors(found.quantised.alone),
            "chip_alone": _errors(found.quantised.chip),
        }
    return {**_verdict(found.verdict), **parts, "at_fault": found.blame}


def _verdict(verdict: Verdict) -> dict[str, Any]:
    return {**_errors(verdict), "pass": verdict.ok, "problem": None if verdict.ok else verdict.text}


def _errors(verdict: Verdict) -> dict[str, float]:
    return {"max_abs_error": verdict.max_abs_error, "cosine": verdict.cosine}


def _node(item: NodeCheck) -> dict[str, Any]:
    head = {"node": item.node.name, "operator": item.node.op, "output": item.tensor.name}
    shape: Sequence[int] = list(item.tensor.shape)
    return {**head, "shape": shape, "alone": _verdict(item.alone), "so_far": _verdict(item.so_far)}
