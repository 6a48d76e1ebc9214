"""Runs a network of the zoo on the emulated chip in each format, and in onnxruntime."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnxruntime

import tx8
from task import Array, Outputs, Task, all_values, cosine

THREADS = 2
"""Threads of the host, for both sides."""

Compiler = Callable[[Task], tx8.Program]


def compiled(task: Task, dtype: str) -> tx8.Program:
    """A program for a format of floats."""
    return tx8.compile(task.model, dtype=dtype, shapes=task.shapes, constants=task.constants)


def _floats(dtype: str) -> Compiler:
    return lambda task: compiled(task, dtype)


FORMATS: Mapping[str, Compiler] = {dtype: _floats(dtype) for dtype in ("fp32", "fp16", "bf16")}
"""What compiles a task, by the name of the format in the table."""


@dataclass(frozen=True)
class Measured:
    """A network in one format.

    ``scores`` and ``theirs`` are those of the chip and of onnxruntime in fp32. ``changed``: how many of the
    decisions differ from onnxruntime's, and of how many; None where there are none. ``alike``: the cosine of
    all outputs of both. ``cycles`` and ``share``: simulated cycles of the first run, and the share of its
    bound that it reaches. ``compiling`` and ``running``: seconds of the host, for a run without simulated
    time.
    """

    task: Task
    dtype: str
    scores: Mapping[str, float]
    theirs: Mapping[str, float]
    changed: tuple[int, int] | None
    alike: float
    cycles: float
    share: float
    compiling: float
    running: float


def measured(task: Task, formats: Sequence[str]) -> Iterator[Measured]:
    """The network in the named formats, one after another."""
    wanted = by_onnxruntime(task)
    truth = task.answers(wanted)
    theirs = {name: score(truth, truth) for name, score in task.scores.items()}
    for dtype in formats:
        begin = time.perf_counter()
        program = FORMATS[dtype](task)
        compiling = time.perf_counter() - begin
        stats = program.run(task.runs[0], threads=THREADS).stats
        outputs, running = on_chip(task, program)
        answers = task.answers(outputs)
        decided = answers.dtype.kind in "iub"
        yield Measured(
            task,
            dtype,
            {name: score(answers, truth) for name, score in task.scores.items()},
            theirs,
            (int(np.count_nonzero(answers != truth)), truth.size) if decided else None,
            cosine(all_values(outputs), all_values(wanted)),
            stats.cycles,
            stats.report.reached,
            compiling,
            running,
        )


def on_chip(task: Task, program: tx8.Program) -> tuple[list[Outputs], float]:
    """The outputs of all runs on the emulated chip, and the least seconds that one took."""
    seconds: list[float] = []

    def run(inputs: Mapping[str, Array]) -> Outputs:
        begin = time.perf_counter()
        found = program.run(inputs, threads=THREADS, timed=False).outputs
        seconds.append(time.perf_counter() - begin)
        return found

    return _all_runs(task, run), min(seconds)


def by_onnxruntime(task: Task) -> list[Outputs]:
    """The outputs of all runs in onnxruntime."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = THREADS, 3
    session = onnxruntime.InferenceSession(_content(task), options, ["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]

    def run(inputs: Mapping[str, Array]) -> Outputs:
        return dict(zip(names, session.run(names, {**inputs, **task.constants}), strict=True))

    return _all_runs(task, run)


def _content(task: Task) -> bytes | str:
    """What onnxruntime opens."""
    return str(task.model) if hasattr(task.model, "exists") else task.model.SerializeToString()


def _all_runs(task: Task, run: Callable[[Mapping[str, Array]], Outputs]) -> list[Outputs]:
    """Every run in order; what is carried from run to run takes the place of the input that it is then."""
    found: list[Outputs] = []
    for inputs in task.runs:
        state = {name: found[-1][output] for name, output in task.carried.items()} if found else {}
        found.append(run({**inputs, **state}))
    return found
