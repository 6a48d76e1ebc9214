"""The zoo: generated data, metrics, missing packages, and the page. No package is needed."""

from __future__ import annotations

import json
import sys
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

from compiler.quantise.ranges.samples import LEAST_ROWS
from documents import cells
from paths import ROOT

FOLDER = ROOT / "examples/zoo"
MODULES = (
    *("task", "speech", "voice", "notes", "sources", "generated_files", "file_types", "sentences"),
    *("digits", "seeded", "measure", "table", "zoo"),
)


@pytest.fixture(scope="module")
def example() -> Iterator[SimpleNamespace]:
    """The modules of the folder, which is not a package."""
    pytest.importorskip("onnxruntime")
    sys.path.insert(0, str(FOLDER))
    try:
        yield SimpleNamespace(**{name: __import__(name) for name in MODULES})
    finally:
        for folder in (str(FOLDER), str(ROOT / "examples/networks")):
            sys.path.remove(folder)
        for name in (*MODULES, "light", "transformers"):
            sys.modules.pop(name, None)


# --- metrics ---------------------------------------------------------------------------------------------


def test_metrics(example: SimpleNamespace) -> None:
    """Computed by hand: two of three found, one too many."""
    truth, found = np.array([1, 1, 1, 0, 0]), np.array([1, 1, 0, 1, 0])
    assert example.task.f1(found, truth) == pytest.approx(2 * 2 / (3 + 3))
    assert example.task.f1(truth * 0, truth * 0) == 1.0
    assert example.task.share_right(found, truth) == 3 / 5
    assert example.task.cosine(np.array([1.0, 0]), np.array([1.0, 1.0])) == pytest.approx(0.5**0.5)
    assert example.task.cosine(np.zeros(2), np.ones(2)) == 0.0


def test_all_values_are_in_the_order_of_names(example: SimpleNamespace) -> None:
    outputs = [{"b": np.array([[3]]), "a": np.array([1, 2])}, {"a": np.array([4]), "b": np.array([5])}]
    assert example.task.all_values(outputs).tolist() == [1, 2, 3, 4, 5]


def test_rank_correlation(example: SimpleNamespace) -> None:
    """Rank correlation of similarity: 1 for scaled vectors; by hand for three pairs, two of them swapped."""
    vectors = np.random.default_rng(0).standard_normal((5, 4))
    assert example.sentences.rank_correlation(3 * vectors, vectors) == pytest.approx(1.0)
    angles = np.array([[0.0, 0.1, 0.5], [0.0, 0.4, 0.5]])  # pairs: 0.1 0.5 0.4 and 0.4 0.5 0.1
    one, other = (np.stack([np.cos(a), np.sin(a)], axis=1) for a in angles)
    assert example.sentences.rank_correlation(one, other) == pytest.approx(0.5)


# --- data ------------------------------------------------------------------------------------------------


def test_files_are_many_and_what_they_say_they_are(example: SimpleNamespace) -> None:
    named = list(example.file_types.files())
    assert len(named) >= 60 and len({content for _, content, _ in named}) == len(named)
    assert [name for name, _, _ in named] == [name for name, _, _ in example.file_types.files()]
    begins = {"png": b"\x89PNG", "zip": b"PK", "gzip": b"\x1f\x8b", "pdf": b"%PDF", "xz": b"\xfd7zXZ"}
    for _, content, kind in named:
        assert content.startswith(begins.get(kind, b""))
        if kind == "json":
            json.loads(content)


def test_features_are_the_ends_of_a_file(example: SimpleNamespace) -> None:
    config = {"block_size": 16, "beg_size": 4, "end_size": 3, "padding_token": 256}
    made = example.file_types.features(b"  abcdefghijklmnopqrstuvwxyz\n", config)
    assert made.tolist() == [[*b"abcd", *b"xyz"]]
    assert example.file_types.features(b" a ", config).tolist() == [[97, 32, 256, 256, 256, 32, 97]]
    assert example.file_types.features(b"", config).tolist() == [[256] * 7]


def test_speech_is_where_it_is_said_to_be(example: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    """It uses the voice that is generated where espeak-ng is missing, so that it is tested everywhere."""
    monkeypatch.setattr(example.speech, "has_espeak", lambda: False)
    sound, speech = example.speech.recording(2)
    assert sound.dtype == np.float32 and sound.shape == speech.shape == (8 * example.speech.RATE,)
    assert 0.2 < speech.mean() < 0.9 and not speech[: example.speech.RATE // 2].any()
    assert np.sqrt(np.mean(sound[speech] ** 2)) > 5 * np.sqrt(np.mean(sound[~speech] ** 2))
    assert np.array_equal(sound, example.speech.recording(2)[0])
    power = np.abs(np.fft.rfft(example.speech.spoken(0))) ** 2
    hertz = np.fft.rfftfreq(2 * len(power) - 1, 1 / example.speech.RATE)
    assert power[(hertz > 80) & (hertz < 4000)].sum() > 0.6 * power.sum()


def test_frames_have_what_came_before(example: SimpleNamespace) -> None:
    voice = example.voice
    frames = voice.frames(np.arange(3 * voice.FRAME + 7, dtype=np.float32))
    assert frames.shape == (3, voice.CONTEXT + voice.FRAME)
    assert not frames[0, : voice.CONTEXT].any()
    assert np.array_equal(frames[1, : voice.CONTEXT], frames[0, -voice.CONTEXT :])
    speech = np.repeat([True, False, True], [voice.FRAME, voice.FRAME + 100, voice.FRAME - 100])
    assert voice.spoken_frames(speech).tolist() == [True, False, True]


def test_notes_have_their_pitch(example: SimpleNamespace) -> None:
    """The strongest frequency of the note A above middle C is 440 Hz."""
    notes = example.notes
    sound = notes.sound(((69,),))
    assert sound.shape == (1, notes.SAMPLES, 1) and np.abs(sound).max() < 1
    power = np.abs(np.fft.rfft(sound[0, :, 0]))
    assert np.fft.rfftfreq(notes.SAMPLES, 1 / notes.RATE)[power.argmax()] == pytest.approx(440, abs=3)
    keys = notes.keys_of(((60, 64), ()))
    assert np.argwhere(keys).tolist() == [[0, 39], [0, 43]]


def test_samples_are_none_of_the_runs(example: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    """There are at least as many as calibration needs; recordings differ in their sentences."""
    speech, voice, notes = example.speech, example.voice, example.notes
    sentences = 2 * (voice.RECORDINGS + voice.SAMPLES)
    assert len(set(speech.SENTENCES)) == len(speech.SENTENCES) >= sentences
    monkeypatch.setattr(notes, "package_file", lambda *_: Path("nmp.onnx"))
    monkeypatch.setattr(voice, "package_file", lambda *_: Path("sequence.onnx"))
    monkeypatch.setattr(voice, "recording", lambda number: (np.full(2048, number, np.float32), np.ones(2048)))
    for task in (notes.task(), voice.whole_task()):
        runs, samples = (
            {b"".join(map(bytes, each.values())) for each in e} for e in (task.runs, task.samples)
        )
        assert len(samples) == len(task.samples) >= LEAST_ROWS and len(runs) == len(task.runs)
        assert not runs & samples


def test_keys_are_heard_in_the_middle_of_a_chord(example: SimpleNamespace) -> None:
    notes = example.notes
    frames = np.zeros((172, notes.KEYS))
    frames[10:35, 39] = 0.9  # the first chord lasts for 39 frames
    assert np.argwhere(example.notes.heard(frames, 2)).tolist() == [[0, 39]]


def test_topics_are_families_of_words(example: SimpleNamespace) -> None:
    """Separate clouds of points are found as families; sentences consist of a family's words."""
    sentences = example.sentences
    random = np.random.default_rng(1)
    centres = np.repeat(np.eye(20), 30, axis=0)
    words = sentences.families(centres + 0.01 * random.standard_normal(centres.shape), random)
    assert words.shape == (sentences.TOPICS, 16)
    assert all(len(set(family // 30)) == 1 for family in words)
    assert len({int(family[0]) // 30 for family in words}) == sentences.TOPICS
    made = sentences.sentences(words, random)
    assert len(made) == sentences.TOPICS * sentences.SENTENCES
    for number, inputs in enumerate(made):
        ids, mask = inputs["input_ids"][0], inputs["attention_mask"][0]
        assert np.array_equal(ids != 0, mask == 1)
        assert set(ids[1 : mask.sum() - 1] - 2000) <= set(words[number // sentences.SENTENCES])
    vectors = np.repeat(np.eye(10), 4, axis=0)
    assert sentences.nearest(vectors + 0.1 * random.random(vectors.shape)).tolist() == [
        topic for topic in range(10) for _ in range(4)
    ]


@pytest.mark.parametrize("name", ["mobilenet", "vit"])
def test_seeded_networks_are_the_same_every_time(example: SimpleNamespace, name: str) -> None:
    first, second = (getattr(example.seeded, name)().SerializeToString(deterministic=True) for _ in range(2))
    assert first == second


def test_the_resnet_is_as_good_as_it_was_trained(example: SimpleNamespace) -> None:
    """Run in onnxruntime; the CNN, which is made from its graph.json, gives the numbers of the example's
    page."""
    for task, least in ((example.digits.resnet_task(), 0.97), (example.digits.digits_task(), 357 / 360)):
        answers = task.answers(example.measure.by_onnxruntime(task))
        assert task.scores["top-1"](answers, answers) >= least


# --- measuring -------------------------------------------------------------------------------------------


def test_a_network_that_carries_its_state(example: SimpleNamespace) -> None:
    """A sum of all inputs so far: each run gets the result of the one before."""
    from onnx import TensorProto, helper

    x, s, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [4]) for name in "xsy")
    rate = helper.make_tensor_value_info("rate", TensorProto.FLOAT, [])
    nodes = [helper.make_node("Mul", ["x", "rate"], ["r"]), helper.make_node("Add", ["r", "s"], ["y"])]
    graph = helper.make_graph(nodes, "sums", [x, s, rate], [y])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    runs = [{"x": np.full(4, n, np.float32), "s": np.zeros(4, np.float32)} for n in (1, 2, 3)]
    task = example.task.Task(
        name="sums",
        model=model,
        runs=runs,
        answers=lambda outputs: np.array([int(found["y"][0]) for found in outputs]),
        scores={"top-1": lambda found, _: example.task.share_right(found, np.array([2, 6, 12]))},
        constants={"rate": np.array(2, np.float32)},
        carried={"s": "y"},
        about="a sum",
    )
    rows = list(example.measure.measured(task, ["fp32", "fp16"]))
    for row in rows:
        assert row.scores == row.theirs == {"top-1": 1.0}
        assert row.changed == (0, 3) and row.alike == pytest.approx(1.0) and row.cycles > 0
    first, *rest = example.table.lines(rows)
    assert first.startswith("| network | format | metric | onnxruntime fp32 |") and len(rest) == 3
    assert rest[1].startswith("| sums | fp32 | top-1 100.00 % | top-1 100.00 % | 0 of 3 | 1.000000 |")
    assert example.table.what_runs(rows) == ["- sums: a sum"]


@pytest.mark.parametrize(
    ("dtype", "score", "wrong"),
    [("fp32", 0.9, 0), ("fp32", 0.899, 1), ("fp16", 0.8985, 0), ("bf16", 0.897, 1), ("fp16", 0.95, 0)],
)
def test_what_a_metric_may_lose(example: SimpleNamespace, dtype: str, score: float, wrong: int) -> None:
    task = SimpleNamespace(name="n")
    row = example.measure.Measured(task, dtype, {"F1": score}, {"F1": 0.9}, None, 1.0, *[0.0] * 4)
    found = example.table.shortcomings(row)
    assert len(found) == wrong
    assert all(
        text.startswith(f"n {dtype}: F1 {score:.6f}, onnxruntime 0.900000; at most ") for text in found
    )


# --- the command -----------------------------------------------------------------------------------------


def test_a_missing_package_is_named_with_the_command_that_installs_it(
    example: SimpleNamespace, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(example.task, "find_spec", lambda name: None)
    assert example.zoo.main(["magika", "silero", "minilm", "basic-pitch", "silero-stream"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "magika is left out: pip install --no-deps magika==1.0.3" in lines
    assert len([line for line in lines if "is left out: pip install --no-deps " in line]) == 5


def test_a_package_without_its_model_is_said_so(example: SimpleNamespace) -> None:
    with pytest.raises(example.task.MissingPackage, match=r"none\.onnx is missing: pip install"):
        example.task.package_file("json==1", "json", "none.onnx")


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["lenet"], "no network 'lenet'; there are: magika, silero, "),
        (["digits", "--formats", "fp16,fp8"], "no format 'fp8'; there are: fp32, fp16, bf16, int8, mixed"),
    ],
)
def test_wrong_arguments(
    example: SimpleNamespace, arguments: list[str], text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        example.zoo.main(arguments)
    assert caught.value.code == 2
    assert text in capsys.readouterr().err


def test_a_metric_that_lost_too_much_is_status_1(
    example: SimpleNamespace, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    task = SimpleNamespace(name="n", about="")
    row: Mapping[str, Any] = {
        **{"task": task, "dtype": "fp16", "scores": {"F1": 0.5}, "theirs": {"F1": 0.9}, "changed": None},
        **{"alike": 1.0, "cycles": 1.0, "share": 0.5, "compiling": 1.0, "running": 1.0},
    }
    monkeypatch.setattr(example.zoo, "measured", lambda task, formats: [example.measure.Measured(**row)])
    monkeypatch.setattr(example.zoo, "TASKS", {"n": lambda: task})
    assert example.zoo.main(["n"]) == 1
    assert "zoo.py: error: n fp16: F1 0.500000, onnxruntime 0.900000" in capsys.readouterr().err


def test_packages_are_those_of_the_extra(
    example: SimpleNamespace, capsys: pytest.CaptureFixture[str]
) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert example.zoo.main(["--packages"]) == 0
    assert capsys.readouterr().out.split() == project["optional-dependencies"]["zoo"]


@pytest.mark.long
def test_bytes_of_a_network_and_mixed_formats_where_they_lose_too_much(
    example: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The digits network loses nothing in bytes, so there is a row of mixed formats only if any loss is too
    much. A network without products has no row of bytes either."""
    task = example.digits.digits_task()
    (row,) = example.measure.measured(task, ["int8", "mixed"])
    assert row.dtype == "int8" and row.scores["top-1"] > 0.98 and row.losses == {}
    assert row.kept.startswith("int8: 4 of 4 products and sums")
    monkeypatch.setitem(example.measure.LARGEST_LOSS, "int8", -1.0)
    assert [row.dtype for row in example.measure.measured(task, ["int8", "mixed"])] == ["int8", "mixed"]
    assert example.table.shortcomings(replace(row, scores={"top-1": 0.5})) == []
    (sentence,) = example.table.shortcomings(replace(row, dtype="mixed", scores={"top-1": 0.5}))
    assert "top-1 0.500000" in sentence


def test_states_that_are_carried_are_samples_too(example: SimpleNamespace) -> None:
    """Each run begins with the states of the one before."""
    node = helper.make_node("Add", ["x", "s"], ["t"], "sum")
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in "xst"]
    graph = helper.make_graph([node], "g", ends[:2], ends[2:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    ones = {"x": np.ones(2, np.float32), "s": np.zeros(2, np.float32)}
    task = example.task.Task("n", model, [ones] * 3, example.task.all_values, {}, carried={"s": "t"})
    np.testing.assert_array_equal(example.measure.samples_of(task)["s"][:, 0], [0, 1, 2])


# --- the page --------------------------------------------------------------------------------------------


def test_a_region_of_a_page_is_replaced(example: SimpleNamespace, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("a\n<!-- zoo -->\nold\n<!-- end of zoo -->\nb\n", encoding="utf-8")
    assert example.table.updated(page, "new") == "a\n<!-- zoo -->\nnew\n<!-- end of zoo -->\nb\n"
    page.write_text("a", encoding="utf-8")
    with pytest.raises(SystemExit, match=r"has no region <!-- zoo --> ... <!-- end of zoo -->"):
        example.table.updated(page, "new")


def test_the_page_has_every_network_in_every_format_and_none_that_lost_too_much(
    example: SimpleNamespace,
) -> None:
    text = (ROOT / "docs/zoo.md").read_text(encoding="utf-8")
    inside = text.partition(example.table.BEGIN)[2].partition(example.table.END)[0]
    headings, _, *rows = (cells(line) for line in inside.splitlines() if line.startswith("| "))
    assert tuple(headings) == example.table.HEADINGS
    names = list(dict.fromkeys(row[0] for row in rows))
    assert len(names) == len(example.zoo.TASKS)
    floats = example.measure.FLOATS
    assert [(row[0], row[1]) for row in rows if row[1] in floats] == [
        (name, dtype) for name in names for dtype in floats
    ]
    assert {row[1] for row in rows} <= set(example.measure.FORMATS)
    for row in rows:
        if row[1] == "fp32":
            assert row[2] == row[3], row
    assert all(f"- {name}: " in inside for name in names)
    assert "left out" not in inside
