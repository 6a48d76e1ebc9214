"""A decoder with half a billion parameters is compiled, prompted and run token by token over one cache.

    python benchmarks/decoder.py [FOLDER]

The weights are random. Weights and program, 1 GB each, are written into a folder, by default a temporary one.
The program has two entries: ``read`` takes 64 tokens of a prompt, ``write`` takes one token. Compiling and
running are processes of their own. It measures their processor time, because other load of the machine
lengthens only the elapsed time, and their largest resident memory. A step on two threads takes half its
processor time if two cores are free. The bound of DDR is the time in which DDR delivers the bytes of all
weights.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import tx8
from _decoder import Shape, write_model, write_weights
from _report import promise, tabulate
from tx8isa.machine.description import load_machine

READ, SEEN, THREADS, STEPS = 64, 256, 2, 12
LENGTHS = (256, 1024, 2048)
"""Positions of the cache that a step sees, for the table of what they cost."""
SMALL = Shape(layers=2, tokens=4096)
"""The decoder of that table, in which the layers are those of the large one."""

Figures = dict[str, float]


def measured(job: Callable[[Path], Figures], folder: Path) -> Figures:
    """Call a function of this file in a process of its own, and return the figures that it prints."""
    command = [sys.executable, __file__, f"--{job.__name__}", folder]
    found = subprocess.run(command, check=True, capture_output=True, text=True)
    return dict(json.loads(found.stdout.splitlines()[-1]))


def memory() -> float:
    """The largest resident memory of this process in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024.0


def compiled(folder: Path) -> Figures:
    """Compile both entries; returns seconds, bytes of memory, of the program and of its constants."""
    shape, begin = Shape(), time.process_time()
    models = {"read": folder / f"decoder_{READ}_{SEEN}.onnx", "write": folder / f"decoder_1_{SEEN}.onnx"}
    program = tx8.compile_entries(models, dtype="fp16", state=shape.states())
    seconds, most = time.process_time() - begin, memory()
    program.save(folder)
    constants = sum(len(s.data) for s in program.image.segments if s.section == ".ddr")
    return {"seconds": seconds, "memory": most, "constants": constants}


def written(folder: Path) -> Figures:
    """Read a prompt and write tokens in a session; returns seconds of a step, bytes of memory, cycles of
    steps."""
    program = tx8.load(folder / "prog.bin")
    prompt = np.random.default_rng(1).integers(0, Shape().tokens, READ)
    steps = []
    with tx8.Session(program, threads=THREADS) as session:
        found = session.run(tokens=prompt, at=np.array([0]), entry="read")
        for at in range(READ, READ + STEPS):
            begin = time.process_time()
            token = np.array([int(found["logits"].argmax())])
            found = session.run(tokens=token, at=np.array([at]), entry="write")
            steps.append(time.process_time() - begin)
        most = memory()
    cycles = {}
    with tx8.Session(program, threads=THREADS, timed=True) as session:
        for entry, tokens in (("read", prompt), ("write", prompt[:1])):
            session.run(tokens=tokens, at=np.array([0]), entry=entry)
            cycles[entry] = float(session.cycles or 0)
    return {"step": min(steps), "memory": most, **cycles}


def step_cycles(seen: int, folder: Path) -> float:
    """Simulated cycles of a step of the small decoder that sees some positions."""
    weights = write_weights(SMALL, folder)
    model = write_model(SMALL, weights, 1, seen, folder)
    program = tx8.compile(model, dtype="fp16", state=SMALL.states())
    with tx8.Session(program, timed=True) as session:
        session.run(tokens=np.array([1]), at=np.array([seen - 1]))
        return float(session.cycles or 0)


def tabulate_lengths(rate: float) -> None:
    """The table of what more positions cost; ``rate`` is DDR's bytes a cycle."""
    with tempfile.TemporaryDirectory() as folder:
        cycles = {seen: step_cycles(seen, Path(folder)) for seen in LENGTHS}
    each = SMALL.layers * 2 * 2 * SMALL.groups * SMALL.head
    first, lines = LENGTHS[0], []
    for seen, found in cycles.items():
        more = f"{(found - cycles[first]) / ((seen - first) * each / rate):.1f}" if seen > first else ""
        lines.append([f"{seen:,}", f"{seen * each / 1e6:.2f}", f"{found:,.0f}", more])
    heads = "positions", "MB of the cache", "cycles of a step of two layers", "times the bytes beyond 256"
    tabulate(heads, lines)


def judge(made: Figures, run: Figures, rate: float) -> None:
    """Record the figures that have goals."""
    size = Shape().bytes
    weights, bound, of = f"{size / 1e6:,.0f} MB of weights", size / rate, "the decoder: "
    seconds, most = made["seconds"], 1.3 + 0.5e9 / size
    promise(of + "compiled, both entries", seconds, "s", at_most=25, against="processor time")
    promise(of + "memory of the compiler", made["memory"] / size, "times", at_most=2.5, against=weights)
    promise(of + "constants", made["constants"] / size, "times", at_most=1.02, against=weights)
    promise(of + "memory of a session", run["memory"] / size, "times", at_most=most, against=weights)
    reached, against = bound / run["write"], f"{bound:,.0f} cycles for its weights"
    promise(of + "a step, of the bound of DDR", reached, "%", at_least=0.85, against=against)
    steps, against = THREADS / run["step"], f"{THREADS} threads, by processor time"
    promise(of + "steps of a session", steps, "tokens/s", at_least=7, against=against)


def main(arguments: list[str]) -> int:
    """Measure and print."""
    jobs: dict[str, Callable[[Path], Figures]] = {f"--{job.__name__}": job for job in (compiled, written)}
    if arguments and arguments[0] in jobs:
        print(json.dumps(jobs[arguments[0]](Path(arguments[1]))))
        return 0
    machine = load_machine()
    rate = machine.ddr.nominal.value / machine.engines.clock.value
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(arguments[0] if arguments else temporary)
        folder.mkdir(parents=True, exist_ok=True)
        weights = write_weights(Shape(), folder)
        for rows in (READ, 1):
            write_model(Shape(), weights, rows, SEEN, folder)
        made, run = measured(compiled, folder), measured(written, folder)
    tabulate_lengths(rate)
    judge(made, run, rate)
    print(made, run)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
