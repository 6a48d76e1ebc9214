"""Compiles and runs random graphs, compares with onnxruntime, and shrinks a graph with a fault.

python tests/support/networks/random_runs.py 200 260          the graphs of these seeds
python tests/support/networks/random_runs.py --counts 10000   how often each operator occurs
"""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from onnx import ModelProto, NodeProto, helper

import compiler
import emulator
from compiler.evaluation.tolerance import judge
from compiler.frontend import ModelFile
from compiler.graph import Array, CapacityError, GraphError
from compiler.tools.check import check_model
from compiler_harness import small_machine
from onnx_models import imported, saved
from random_graphs import ENDS, GraphDraw, Setting, drawn, reads_of, setting


def problems(draw: GraphDraw, made: ModelProto, how: Setting, folder: Path) -> list[str]:
    """Return a line for each mistake: an output, a hazard, or a check that contradicts the compiler."""
    path = saved(made, folder)
    supported = check_model(ModelFile(path).reader(), path).supported
    try:
        graph = imported(made, folder)
        program = compiler.compile(
            graph,
            how.dtype,
            how.tiles,
            small_machine(how.spm_bytes),
            search=how.search,
            residency=how.residency,
        )
    except CapacityError:
        return []
    except GraphError as error:
        if supported:
            return [f"--check says that it is supported: {error}"]
        return [f"refused: {error}"]
    needed = {tensor.name for tensor in graph.inputs}  # an input that no output needs is none of the program
    loaded = emulator.Program(program.image, program.machine)
    got = loaded.run({name: draw.inputs[name] for name in needed}, strict=True)
    found = [] if supported else ["--check says that it is not supported"]
    found += [f"{hazard.kind} at node {hazard.at.node}: {hazard.what}" for hazard in loaded.hazards[:1]]
    if list(got) != [item.name for item in made.graph.output]:
        found.append(f"outputs {list(got)} in another order")
    for item in made.graph.output:
        wanted = draw.values[item.name]
        text = wrong(got[item.name], wanted, how.dtype)
        found += [f"{item.name} {list(wanted.shape)} {wanted.dtype}: {text}"] if text else []
    return found


def wrong(got: Array, wanted: Array, dtype: str) -> str | None:
    """Explain why an output is wrong; None if it is right. NaN and infinities must be in the same places."""
    if got.shape != wanted.shape or got.dtype != wanted.dtype:
        return f"is {list(got.shape)} {got.dtype}"
    if wanted.dtype.kind != "f":
        count = int((got != wanted).sum())
        return f"{count} of {wanted.size} integers differ" if count else None
    ends = ENDS[dtype]
    with np.errstate(all="ignore"):
        large = np.abs(wanted.astype(np.float64)) >= ends  # some are infinite in the format
        large |= np.isinf(got)
        if np.any(np.isnan(got) != np.isnan(wanted)):
            at = int(np.flatnonzero(np.isnan(got) != np.isnan(wanted))[0])
            return f"{got.reshape(-1)[at]} for {wanted.reshape(-1)[at]} at {at}"
        if np.any(large & (np.abs(got.astype(np.float64)) < 0.9 * ends)):
            return "a number where there should be an infinity"
        if np.any(large & ~np.isnan(wanted) & (np.abs(wanted.astype(np.float64)) < 0.9 * ends)):
            return "an infinity where there should be a number"
        usable = ~(large | np.isnan(wanted))
        verdict = judge("model", dtype, np.where(usable, got, 0), np.where(usable, wanted, 0))
    return None if verdict.ok else verdict.text


def shrunk(draw: GraphDraw, how: Setting, folder: Path) -> tuple[GraphDraw, ModelProto]:
    """A smaller graph with the same kind of problem: nodes become inputs with the values that they have."""
    outputs = [name for node in draw.nodes for name in node.output]
    best = draw
    kept = [name for name in outputs if _still_wrong(_only(draw, [name]), [name], how, folder)][:1] or outputs
    best = _only(draw, kept)
    for node in reversed(list(best.nodes)):
        smaller = _only(_without(best, node), kept)
        if node.output[0] not in kept and len(smaller.nodes) < len(best.nodes):
            best = smaller if _still_wrong(smaller, kept, how, folder) else best
    return best, best.model(kept)


def _still_wrong(draw: GraphDraw, outputs: list[str], how: Setting, folder: Path) -> bool:
    try:
        return bool(problems(draw, draw.model(outputs), how, folder))
    except Exception:  # any fault of the compiler
        return True


def _without(draw: GraphDraw, node: NodeProto) -> GraphDraw:
    """The graph without a node; its results are inputs."""
    given = {name: draw.values[name] for name in node.output if name in draw.values}
    rest = [other for other in draw.nodes if other is not node]
    return replace(draw, nodes=rest, inputs={**draw.inputs, **given})


def _only(draw: GraphDraw, outputs: Sequence[str]) -> GraphDraw:
    """The nodes and inputs that some values depend on."""
    needed, nodes = set(outputs), []
    for node in reversed(draw.nodes):
        if needed & set(node.output):
            needed |= reads_of(node)
            nodes.insert(0, node)
    return replace(draw, nodes=nodes, inputs={n: a for n, a in draw.inputs.items() if n in needed})


def found_problems(seed: int, folder: Path) -> list[str]:
    """The problems of a seed's graph; an exception is one too."""
    draw, made = drawn(seed)
    try:
        return problems(draw, made, setting(seed), folder)
    except Exception as error:  # every fault of the compiler is a finding
        return [f"{type(error).__name__}: {error}"]


def described(seed: int, found: Sequence[str], folder: Path) -> str:
    """A finding in words, with the smallest graph that still shows it."""
    draw, _ = drawn(seed)
    with tempfile.TemporaryDirectory() as scratch:
        small, made = shrunk(draw, setting(seed), Path(scratch))
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"graph-{seed}.onnx").write_bytes(made.SerializeToString())
    np.savez(folder / f"graph-{seed}.npz", **small.inputs)
    nodes = "; ".join(
        f"{', '.join(node.output)} = {node.op_type}({', '.join(node.input)})"
        + "".join(f" {a.name}={helper.get_attribute_value(a)}" for a in node.attribute if not a.HasField("g"))
        for node in made.graph.node
    )
    shapes = ", ".join(f"{name} {a.dtype}{list(a.shape)}" for name, a in small.inputs.items())
    return f"{seed} {setting(seed)}, opset {small.opset}: {found[0]}\n    {shapes}: {nodes}"


def main(arguments: list[str]) -> int:
    """Run the graphs of the seeds first .. last - 1; print a finding for each wrong one."""
    if arguments[0] == "--counts":
        counts = Counter(node.op_type for seed in range(int(arguments[1])) for node in drawn(seed)[0].nodes)
        print(", ".join(f"{op} {count}" for op, count in counts.most_common()))
        return 0
    first, last = map(int, arguments)
    wrong_ones = 0
    for seed in range(first, last):
        with tempfile.TemporaryDirectory() as folder:
            found = found_problems(seed, Path(folder))
        if found:
            wrong_ones += 1
            print(described(seed, found, Path("build/fuzz/findings")), flush=True)
    print(f"{last - first} graphs, {wrong_ones} wrong")
    return int(wrong_ones > 0)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
