"""Measure the cost of beginning a run of a program, in a session and without one.

    python benchmarks/sessions.py

A small program, and a program that writes rows of a cache of 4 MB. It measures the processor time outside of
the run itself: from the call to the first instruction, and from the last instruction until the outputs are
ready and the next run may begin. The best of several rounds counts.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
from onnx import ModelProto, TensorProto, helper

import tx8
from _report import promise
from emulator.chip.system import System

ROUNDS, RUNS = 7, 100
HEADS, ROOM, WIDTH = 16, 1024, 64


def small() -> tuple[tx8.Program, dict[str, np.ndarray]]:
    """A ReLU of 1024 numbers, and its input."""
    graph = tx8.GraphBuilder("relu")
    graph.output(graph.Relu(graph.input("x", "float32", (16, 64))), "y")
    return tx8.compile(graph), {"x": np.ones((16, 64), np.float32)}


def cache() -> tuple[tx8.Program, dict[str, np.ndarray]]:
    """A row for each head of a cache, and the rows to write."""
    shapes = {"past": [1, HEADS, ROOM, WIDTH], "x": [1, HEADS, 1, WIDTH], "present": [1, HEADS, ROOM, WIDTH]}
    kinds = {n: helper.make_tensor_value_info(n, TensorProto.FLOAT, shape) for n, shape in shapes.items()}
    at = helper.make_tensor_value_info("at", TensorProto.INT64, [1])
    node = helper.make_node("TensorScatter", ["past", "x", "at"], ["present"], axis=2)
    graph = helper.make_graph([node], "cache", [kinds["past"], kinds["x"], at], [kinds["present"]])
    model: ModelProto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 24)])
    inputs = {"x": np.ones(shapes["x"], np.float32), "at": np.array([5])}
    return tx8.compile(model, state={"past": "present"}), inputs


@contextmanager
def inside() -> Iterator[list[float]]:
    """The seconds that the runs themselves take."""
    taken, run = [0.0], System.run

    def timed(self: System, *arguments: object) -> bool:
        start = time.process_time()
        try:
            return run(self, *arguments)  # type: ignore[arg-type]
        finally:
            taken[0] += time.process_time() - start

    System.run = timed  # type: ignore[assignment, method-assign]
    try:
        yield taken
    finally:
        System.run = run  # type: ignore[method-assign]


def beside(call: Callable[[], object]) -> float:
    """Milliseconds of a call outside of the run itself."""
    best = float("inf")
    for _ in range(ROUNDS):
        with inside() as taken:
            start = time.process_time()
            for _ in range(RUNS):
                call()
            best = min(best, time.process_time() - start - taken[0])
    return best / RUNS * 1e3


def main() -> None:
    """Measure and print."""
    measured = {"a small program": small(), "rows of a cache of 4 MB": cache()}
    program, inputs = measured["a small program"]
    alone = beside(lambda: program.emulated.run(inputs))
    for name, (stateful, bound) in measured.items():
        session = tx8.Session(stateful)
        session.bind(bound)
        figure = beside(session.run)
        against = f"a run of the small one without a session: {alone:.2f} ms"
        promise(f"beginning a step of a session: {name}", figure, "ms", at_most=0.2, against=against)
        print(f"{name}: {figure:.3f} ms; {against}")


if __name__ == "__main__":
    main()
