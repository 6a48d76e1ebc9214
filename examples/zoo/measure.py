"""Runs a network of the zoo on the emulated chip in each format, and in onnxruntime."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import onnxruntime

import tx8
from task import Array, Outputs, Task, all_values, cosine
from tx8isa.errors import Tx8Error

THREADS = 2
"""Threads of the host, for both sides."""

MOST_SAMPLES = 16
LARGEST_LOSS = {"fp32": 0.0, "fp16": 0.002, "bf16": 0.002, "int8": 0.005, "mixed": 0.005}
"""How much a metric may lose, by format."""
LARGEST_TURN = 0.01
"""How much a cosine may lose if bytes are computed."""

Compiler = Callable[[Task], tx8.Program]


def compiled(task: Task, dtype: str) -> tx8.Program:
    """A program for a format of floats."""
    return tx8.compile(task.model, dtype=dtype, shapes=task.shapes, constants=task.constants)


def of_bytes(task: Task, max_loss: float | None = None) -> tx8.Program:
    """A program of bytes; with ``max_loss``, a share of the cosine, as many bytes as that allows."""
    options: dict[str, Any] = {"shapes": task.shapes, "constants": task.constants, "max_loss": max_loss}
    return tx8.compile(task.model, dtype="int8", calibrate=samples_of(task), **options)


def samples_of(task: Task) -> dict[str, Array]:
    """Inputs of a task, at most ``MOST_SAMPLES`` of each, the state that is carried from run to run too.

    They are of runs from the first to the last, because a recording begins with silence.
    """
    inputs = task.samples
    if not inputs:
        found = by_onnxruntime(task) if task.carried else []
        count = min(len(task.runs), MOST_SAMPLES)
        chosen = [at * (len(task.runs) - 1) // max(count - 1, 1) for at in range(count)]
        inputs = [{**task.runs[at], **_state(task, found[:at])} for at in chosen]
    return {name: np.stack([each[name] for each in inputs]) for name in inputs[0]}


def _floats(dtype: str) -> Compiler:
    return lambda task: compiled(task, dtype)


FLOATS = ("fp32", "fp16", "bf16")
BYTES, MIXED = "int8", "mixed"
FORMATS: Mapping[str, Compiler] = {dtype: _floats(dtype) for dtype in FLOATS} | {
    BYTES: of_bytes,
    MIXED: partial(of_bytes, max_loss=LARGEST_LOSS[MIXED]),
}
"""The function that compiles a task, by the name of the format in the table."""


@dataclass(frozen=True)
class Measured:
    """A network in one format.

    ``scores`` and ``theirs`` are those of the chip and of onnxruntime in fp32. ``changed`` is how many of the
    decisions differ from onnxruntime's, and their number; None if the network decides nothing. ``alike`` is
    the cosine of all outputs of both. ``cycles`` and ``share``: simulated cycles of the first run, and the
    share of its bound that it reaches. ``compiling`` and ``running``: seconds of the host, for a run without
    simulated time. ``kept`` names what a program of bytes computes in floats.
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
    kept: str = ""

    @property
    def losses(self) -> dict[str, float]:
        """The metrics that lost more than allowed, and their losses."""
        found = dict[str, float]()
        for name, score in self.scores.items():
            turned = name == "cosine" and self.dtype in (BYTES, MIXED)
            allowed = LARGEST_TURN if turned else LARGEST_LOSS[self.dtype]
            if score < self.theirs[name] - allowed - 5e-7:
                found[name] = allowed
        return found


def measured(task: Task, formats: Sequence[str]) -> Iterator[Measured | str]:
    """Yield the network in the named formats; a sentence for a format that is impossible.

    Mixed formats are measured only if bytes alone lose too much, because otherwise they are the same.
    """
    wanted = by_onnxruntime(task)
    truth = task.answers(wanted)
    theirs = {name: score(truth, truth) for name, score in task.scores.items()}
    enough = False
    for dtype in formats:
        if dtype == MIXED and enough:
            continue
        begin = time.perf_counter()
        try:
            program = FORMATS[dtype](task)
        except Tx8Error as error:
            if dtype in FLOATS:
                raise
            yield f"{task.name} is not in {dtype}: {error}"
            continue
        compiling = time.perf_counter() - begin
        stats = program.run(task.runs[0], threads=THREADS).stats
        outputs, running = on_chip(task, program)
        answers = task.answers(outputs)
        decided = answers.dtype.kind in "iub"
        row = Measured(
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
            program.formats.summary() if program.formats is not None else "",
        )
        enough = dtype == BYTES and not row.losses
        yield row


def on_chip(task: Task, program: tx8.Program) -> tuple[list[Outputs], float]:
    """The outputs of all runs on the emulated chip, and the least seconds of a run."""
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
    """Every run in order; carried outputs of one run become inputs of the next."""
    found: list[Outputs] = []
    for inputs in task.runs:
        found.append(run({**inputs, **_state(task, found)}))
    return found


def _state(task: Task, before: Sequence[Outputs]) -> dict[str, Array]:
    """The inputs of a run that are outputs of the run before."""
    return {name: before[-1][output] for name, output in task.carried.items()} if before else {}
