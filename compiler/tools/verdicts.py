"""The verdicts of ``--run`` and ``--verify-nodes`` as data: what ``--json`` prints."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from compiler.driver import Program
from compiler.evaluation.judgement import Judgement
from compiler.evaluation.tolerance import Verdict

from .run import Outcome, RunFault
from .verify import NodeCheck, Verification


def run_document(program: Program, outcome: Outcome) -> str:
    """A run with its outputs, cycles and hazards; docs/compiler_tools.md lists the keys."""
    outputs = [
        {"name": name, "shape": list(outcome.outputs[name].shape), **_judgement(found)}
        for name, found in outcome.judgements.items()
    ]
    ends = (
        None
        if outcome.cycles_range is None
        else dict(zip(("least", "most"), outcome.cycles_range, strict=True))
    )
    time = {"cycles": outcome.cycles, "cycles_range": ends}
    found = {"instructions": outcome.instructions, **time, "hazards": outcome.hazards}
    return _document(program, outcome.ok, {"fault": None, "outputs": outputs, **found})


def fault_document(program: Program, fault: RunFault) -> str:
    """A run that stopped with a fault: it has no outputs."""
    return _document(program, False, {"fault": str(fault), "outputs": []})


def nodes_document(program: Program, found: Verification) -> str:
    """The verdicts on every node, and the first one that is wrong."""
    outputs = [{"name": name, **_judgement(item)} for name, item in found.outputs.items()]
    wrong = None if found.at is None else found.at.name
    nodes = [_node(item) for item in found.checks]
    return _document(program, found.ok, {"wrong": wrong, "nodes": nodes, "outputs": outputs})


def _document(program: Program, passed: bool, rest: dict[str, Any]) -> str:
    head = {"graph": program.graph.name, "dtype": program.dtype, "tiles": program.tiles, "pass": passed}
    return msgspec.json.format(msgspec.json.encode({**head, **rest})).decode()


def _judgement(found: Judgement) -> dict[str, Any]:
    rounding = {"max_abs_error": found.rounding.max_abs_error, "cosine": found.rounding.cosine}
    return {**_verdict(found.verdict), "rounding_alone": rounding, "at_fault": found.blame}


def _verdict(verdict: Verdict) -> dict[str, Any]:
    errors = {"max_abs_error": verdict.max_abs_error, "cosine": verdict.cosine}
    return {**errors, "pass": verdict.ok, "problem": None if verdict.ok else verdict.text}


def _node(item: NodeCheck) -> dict[str, Any]:
    head = {"node": item.node.name, "operator": item.node.op, "output": item.tensor.name}
    shape: Sequence[int] = list(item.tensor.shape)
    return {**head, "shape": shape, "alone": _verdict(item.alone), "so_far": _verdict(item.so_far)}
