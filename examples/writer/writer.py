"""Run the writer on the emulated chip: a session with two entries, one that reads and one that writes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
from network import model, states
from numpy.typing import NDArray
from safetensors.numpy import load_file
from shape import SHAPE
from text import END, TOKENS, decode, encode

import tx8

WEIGHTS = Path(__file__).parent / "weights.safetensors"
BLOCK = 16
"""Tokens of a prompt that are read at once; the length of the caches is a multiple of it."""

Choice = Callable[[NDArray[np.float32], int], int]
"""The next token, from its logits and the most probable one."""


def greedy(_: NDArray[np.float32], most_probable: int) -> int:
    """Always the most probable token, which the chip has found."""
    return most_probable


def sampled(temperature: float, seed: int) -> Choice:
    """Tokens drawn with their probabilities; a ``temperature`` below 1 favours the probable ones."""
    random = np.random.default_rng(seed)

    def choose(logits: NDArray[np.float32], _: int) -> int:
        known = logits[: len(TOKENS)]  # the model has room for a few tokens more
        shares = np.exp((known - known.max()) / temperature, dtype=np.float64)
        return int(random.choice(len(shares), p=shares / shares.sum()))

    return choose


def compiled(
    dtype: str,
    weights: Mapping[str, Any] | None = None,
    chips: tuple[int, int] | None = None,
    parallel: str | None = None,
) -> tx8.Program:
    """The program of both entries in a format of floats; several ``chips`` share heads and columns, or work
    as ``parallel`` says."""
    found = load_file(WEIGHTS) if weights is None else weights
    rows = {"read": BLOCK, "write": 1}
    models = {name: model(SHAPE, found, count, SHAPE.room) for name, count in rows.items()}
    if parallel is None and chips is not None:
        parallel = f"tp={chips[0] * chips[1]}"
    return tx8.compile_entries(models, dtype=dtype, state=states(SHAPE), chips=chips, parallel=parallel)


class Writer:
    """Write the answers of prompts; with ``timed`` also count the simulated cycles.

    ``steps`` and ``seconds`` are those of the entry ``write``, in processor time.
    """

    def __init__(self, program: tx8.Program, threads: int = 1, timed: bool = False) -> None:
        self.program = program
        self.session = tx8.Session(program, threads=threads, timed=timed)
        self.cycles = dict.fromkeys(program.entries, 0)
        """Simulated cycles of the last step of each entry."""
        self.steps = 0
        self.seconds = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.session.close()

    def run(self, entry: str, tokens: Sequence[int], at: int) -> tuple[NDArray[np.float32], int]:
        """The logits of the token after a sequence that begins at a position, and the best token."""
        rows = BLOCK if entry == "read" else 1
        filled = np.zeros(rows, np.int64)
        filled[: len(tokens)] = tokens
        begin = time.process_time()
        found = self.session.run(tokens=filled, at=np.array([at]), entry=entry)
        if entry == "write":
            self.steps, self.seconds = self.steps + 1, self.seconds + time.process_time() - begin
        self.cycles[entry] = self.session.cycles or 0
        last = len(tokens) - 1
        return found["logits"][last], int(found["next"][last])

    def read(self, tokens: Sequence[int]) -> tuple[NDArray[np.float32], int]:
        """The result of ``run`` for the last token of a text, all of which is read anew."""
        blocks = [(at, tokens[at : at + BLOCK]) for at in range(0, len(tokens), BLOCK)]
        return [self.run("read", block, at) for at, block in blocks][-1]

    def tokens(self, prompt: str, choose: Choice = greedy) -> Iterator[int]:
        """The tokens of an answer in order, up to its end or the end of the caches."""
        text = encode(prompt)
        if len(text) >= SHAPE.room:
            raise ValueError(f"the prompt has {len(text)} tokens, the caches have room for {SHAPE.room}")
        token = choose(*self.read(text))
        for at in range(len(text), SHAPE.room):
            yield token
            if token == END:
                return
            token = choose(*self.run("write", [token], at))

    def answer(self, prompt: str, choose: Choice = greedy) -> str:
        """The whole answer."""
        return decode([*self.tokens(prompt, choose)])
