"""The decoder of benchmarks/decoder.py in small: what it computes, and that every weight is stored once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tx8
from scripts import benchmark_modules
from tx8.program import Program
from tx8isa.numbers.formats import Format
from tx8isa.numbers.layouts import Layout
from tx8isa.numbers.packing import pack

pytestmark = pytest.mark.long
BLOCK, ROOM = 4, 16
Weights = dict[str, np.ndarray[Any, np.dtype[np.float16]]]
TOKENS = np.random.default_rng(3).integers(0, 192, ROOM)


@pytest.fixture(scope="module")
def decoder() -> Iterator[Any]:
    with benchmark_modules("_decoder") as found:
        yield found.decoder


@pytest.fixture(scope="module")
def shape(decoder: Any) -> Any:
    return decoder.Shape(
        layers=2, width=128, heads=4, groups=2, head=32, hidden=192, tokens=192, room=ROOM, base=1e4
    )


@pytest.fixture(scope="module")
def made(decoder: Any, shape: Any, tmp_path_factory: pytest.TempPathFactory) -> tuple[Program, Weights]:
    """The program of three entries that read blocks of different sizes, and its weights."""
    folder: Path = tmp_path_factory.mktemp("decoder")
    places = decoder.write_weights(shape, folder)
    rows = {"read": BLOCK, "write": 1, "whole": ROOM}
    models = {n: decoder.write_model(shape, places, count, ROOM, folder) for n, count in rows.items()}
    program = tx8.compile_entries(models, dtype="fp16", tiles=4, state=shape.states())
    data, weights = (folder / "weights.bin").read_bytes(), Weights()
    for name, place in places.items():
        offset = int(place.external_data[1].value)
        found = np.frombuffer(data, np.float16, int(np.prod(place.dims)), offset)
        weights[name] = found.reshape(place.dims)
    return program, weights


def constants(program: Program) -> bytes:
    return b"".join(bytes(s.data) for s in program.image.segments if s.section == ".ddr")


def test_every_weight_is_stored_once_for_all_entries(made: tuple[Program, Weights]) -> None:
    program, weights = made
    stored = constants(program)
    for name, matrix in weights.items():
        if name != "embedding":
            assert stored.count(pack(matrix, Format.FP16, Layout.CX).tobytes()) == 1
    size = sum(matrix.nbytes for matrix in weights.values())
    assert size < len(stored) < size + (56 << 10)


def test_the_last_product_reads_the_rows_of_the_embedding(made: tuple[Program, Weights]) -> None:
    program, weights = made
    stored, embedding = constants(program), weights["embedding"]
    assert stored.count(embedding.tobytes()) == 1
    assert pack(embedding.T, Format.FP16, Layout.CX).tobytes() not in stored


def written(program: Program, threads: int) -> list[np.ndarray[Any, Any]]:
    """The logits after each block and step of the tokens."""
    found = []
    with tx8.Session(program, threads=threads) as session:
        for at in range(0, 2 * BLOCK, BLOCK):
            block = session.run(tokens=TOKENS[at : at + BLOCK], at=np.array([at]), entry="read")
            found.append(block["logits"])
        for at in range(2 * BLOCK, ROOM):
            step = session.run(tokens=TOKENS[at : at + 1], at=np.array([at]), entry="write")
            found.append(step["logits"])
    return found


def test_blocks_and_steps_over_one_cache_give_what_the_whole_text_gives(
    made: tuple[Program, Weights],
) -> None:
    program, weights = made
    found = written(program, 1)
    with tx8.Session(program) as session:
        whole = session.run(tokens=TOKENS, at=np.array([0]), entry="whole")["logits"]
    assert np.abs(found[-1].astype(np.float32) - whole.astype(np.float32)).max() < 0.02
    assert all((a == b).all() for a, b in zip(found, written(program, 2), strict=True))
    wanted = reference(weights, TOKENS)
    for logits, at in zip(found, (BLOCK, 2 * BLOCK, *range(2 * BLOCK + 1, ROOM + 1)), strict=True):
        assert np.abs(logits[0] - wanted[at - 1]).max() < 0.03
        assert logits[0].argmax() == wanted[at - 1].argmax()


def reference(weights: Weights, tokens: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The logits after each token in binary64, computed from the whole text at once."""
    w = {name: matrix.astype(np.float64) for name, matrix in weights.items()}
    x, after = w["embedding"][tokens], np.where(np.tri(len(tokens)) > 0, 0.0, -np.inf)
    for layer in ("0", "1"):
        rows = norm(x) @ w[f"{layer}.qkv"]
        heads = rows.reshape(len(tokens), 8, 32).swapaxes(0, 1)
        q, k, v = turned(heads[:4]), turned(heads[4:6]).repeat(2, axis=0), heads[6:].repeat(2, axis=0)
        scores = np.exp(q @ k.swapaxes(1, 2) / np.sqrt(32) + after)
        seen = scores / scores.sum(axis=-1, keepdims=True) @ v
        x = x + seen.swapaxes(0, 1).reshape(len(tokens), -1) @ w[f"{layer}.o"]
        gate, up = np.split(norm(x) @ w[f"{layer}.gate_up"], 2, axis=1)
        x = x + (gate / (1 + np.exp(-gate)) * up) @ w[f"{layer}.down"]
    return np.asarray(norm(x) @ w["embedding"].T)


def norm(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return np.asarray(x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + 1e-6))


def turned(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Rotary embeddings of heads [count, length, 32]."""
    angles = np.arange(x.shape[1])[:, None] * 1e4 ** -(np.arange(16) / 16)
    cos, sin = np.cos(angles), np.sin(angles)
    low, high = x[..., :16], x[..., 16:]
    return np.concatenate([low * cos - high * sin, high * cos + low * sin], axis=-1)
