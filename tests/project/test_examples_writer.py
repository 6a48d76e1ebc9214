"""The writer: its text, its networks, and its answers on the emulated chip beside those in float32."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

from example_modules import example_modules
from paths import ROOT

FOLDER = ROOT / "examples/writer"
MODULES = ("shape", "text", "network", "reference", "writer")
SHORT = ["12 + 7 =", "fifty minus eight is", "count from three to five:"]


@pytest.fixture(scope="module")
def example() -> Iterator[SimpleNamespace]:
    with example_modules(FOLDER, MODULES) as modules:
        yield modules


@pytest.fixture(scope="module")
def weights(example: SimpleNamespace) -> Any:
    return example.reference.as_floats(load_file(FOLDER / "weights.safetensors"))


@pytest.fixture(scope="module")
def program(example: SimpleNamespace) -> Any:
    return example.writer.compiled("fp16")


# --- text --------------------------------------------------------------------------------------------------


def test_texts_come_back_from_their_tokens(example: SimpleNamespace) -> None:
    for prompt, answer in example.text.prompts(300, 1):
        for text in (prompt, answer):
            assert example.text.decode(example.text.encode(text)) == text


def value(words: list[str]) -> int:
    """Parse the number in a text, digits or words; the inverse of the generator of sentences."""
    if words[0] in ("-", "minus"):
        return -value(words[1:])
    if words[0].isdigit():
        return int(words[0])
    units = "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen"
    small = [*units.split(), "sixteen", "seventeen", "eighteen", "nineteen"]
    tens = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
    total = 0
    for word in " ".join(words).replace("-", " ").split():
        if word == "hundred":
            total *= 100
        else:
            total += small.index(word) if word in small else 10 * tens.index(word) + 20
    return total


def test_answers_are_right(example: SimpleNamespace) -> None:
    for prompt, answer in example.text.prompts(500, 2):
        words, found = prompt.split(), answer.removesuffix(".").split()
        if words[0] == "count":
            numbers = [value(part.split()) for part in answer.removesuffix(".").split(",")]
            assert all(after == before + 1 for before, after in pairwise(numbers))
            middle = words.index("to")
            assert [numbers[0], numbers[-1]] == [
                value(words[2:middle]),
                value(prompt.removesuffix(":").split()[middle + 1 :]),
            ]
            continue
        at = next(i for i, word in enumerate(words) if word in ("plus", "minus", "times", "+", "-", "*"))
        left, right = value(words[:at]), value(words[at + 1 : -1])
        wanted = {"plus": left + right, "+": left + right, "times": left * right, "*": left * right}
        assert value(found) == wanted.get(words[at], left - right), prompt


def test_words_that_have_no_token_are_refused(example: SimpleNamespace) -> None:
    with pytest.raises(ValueError, match="'twelfe' is no word of the writer; it knows zero one"):
        example.text.encode("twelfe plus one is")
    run = subprocess.run(
        [sys.executable, FOLDER / "write.py", "one and two is"], capture_output=True, text=True, check=False
    )
    assert (run.returncode, run.stderr.count("Traceback")) == (2, 0)
    assert "'and' is no word of the writer" in run.stderr


# --- networks ----------------------------------------------------------------------------------------------


def test_the_models_compute_what_the_reference_computes(example: SimpleNamespace, weights: Any) -> None:
    """Run on onnxruntime: a block, then single tokens, with caches that pass from one run to the next."""
    onnxruntime = pytest.importorskip("onnxruntime")
    shape = example.shape.SHAPE
    tokens = example.text.encode("count from 8 to 12: 8, 9, 10, 11, 12.")
    pairs = example.network.states(shape)
    caches = {name: np.zeros((1, shape.groups, shape.room, shape.head), np.float32) for name in pairs}
    for at, end, seen in ((0, 16, shape.room), (16, 17, shape.room), (17, 18, 32)):
        model = example.network.model(shape, weights, end - at, seen)
        session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        inputs = {"tokens": np.array(tokens[at:end]), "at": np.array([at]), **caches}
        names = [output.name for output in session.get_outputs()]
        found = dict(zip(names, session.run(None, inputs), strict=True))
        caches = {name: found[present] for name, present in pairs.items()}
        wanted = example.reference.logits(tokens[:end], weights)
        np.testing.assert_allclose(found["logits"][-1], wanted, atol=2e-3)
        assert found["next"][-1] == wanted.argmax()


# --- answers -----------------------------------------------------------------------------------------------


def test_answers_are_those_of_the_reference(example: SimpleNamespace, program: Any, weights: Any) -> None:
    for threads in (1, 2):
        with example.writer.Writer(program, threads) as writer:
            for prompt in SHORT:
                assert writer.answer(prompt) == example.reference.answer(prompt, weights)


def test_a_text_read_anew_goes_on_as_it_does_with_its_cache(example: SimpleNamespace, program: Any) -> None:
    prompt = "count from 8 to 13:"
    with example.writer.Writer(program) as writer:
        tokens = list(writer.tokens(prompt))
        text = example.text.encode(prompt)
        for token in tokens:
            writer.session.reset()
            assert writer.read(text)[1] == token
            text.append(token)
    assert len(text) > example.writer.BLOCK


def test_logits_do_not_depend_on_threads(example: SimpleNamespace, program: Any) -> None:
    found = []
    for threads in (1, 2):
        with example.writer.Writer(program, threads, timed=True) as writer:
            logits = [writer.read(example.text.encode(SHORT[0]))[0], writer.run("write", [5], 6)[0]]
            found.append((np.stack(logits).tobytes(), writer.cycles))
    assert found[0] == found[1]


def test_drawn_texts_depend_on_the_seed_alone(example: SimpleNamespace, program: Any) -> None:
    with example.writer.Writer(program) as writer:
        texts = [writer.answer(SHORT[0], example.writer.sampled(9.0, seed)) for seed in (1, 1, 2, 3)]
    assert texts[0] == texts[1]
    assert len(set(texts)) > 1


def test_prompts_longer_than_the_caches_are_refused(example: SimpleNamespace, program: Any) -> None:
    with (
        example.writer.Writer(program) as writer,
        pytest.raises(ValueError, match="the prompt has 129 tokens, the caches have room for 128"),
    ):
        writer.answer(" ".join(["one"] * 128))


@pytest.mark.parametrize("entry", ["read", "write"])
def test_the_sanitizer_finds_nothing(program: Any, entry: str) -> None:
    alone = program.entry(entry)
    inputs = {buffer.name: np.zeros(buffer.shape, buffer.dtype) for buffer in alone.inputs}
    assert alone.run(inputs).hazards == ()


@pytest.mark.long
@pytest.mark.parametrize("dtype", ["fp16", "bf16"])
def test_of_500_answers_99_percent_are_those_of_the_reference(dtype: str) -> None:
    run = subprocess.run(
        [sys.executable, FOLDER / "check.py", "--dtype", dtype], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stdout + run.stderr
