"""Basic Pitch, which hears the notes of two seconds of music: tf2onnx's form of a network in TensorFlow."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from task import Array, Inputs, Outputs, Task, f1, package_file

PACKAGE = "basic-pitch==0.4.0"
RATE, SAMPLES, HOP = 22050, 43844, 256
"""Samples a second, samples of a window, and samples from one frame of the result to the next."""
KEYS, LOWEST = 88, 21
"""Keys of a piano, and the number of the lowest (MIDI)."""

_INPUT = "serving_default_input_2:0"
_NOTES = "StatefulPartitionedCall:1"
_THRESHOLD = 0.5
_CHORD = 0.45
"""Seconds of a chord."""

MUSIC = (
    ((60,), (64,), (67,), (72,)),
    ((60, 64, 67), (65, 69, 72), (67, 71, 74), (60, 64, 67)),
    ((45, 57), (48, 60), (50, 62), (52, 64)),
    ((76,), (74, 55), (72, 52), (71, 67, 43)),
    ((38,), (50, 53, 57), (), (69, 81)),
    ((56, 63), (58, 65), (61, 68), (66, 70, 73)),
)
"""Windows of music: each is a list of chords, which are tuples of key numbers."""

_SAMPLES = 8
"""Windows of other music, for the calibration of bytes."""


def other_music() -> list[list[list[int]]]:
    """Windows of four chords of up to four drawn notes; none of them is in ``MUSIC``."""
    rng = np.random.default_rng(1)
    sizes = rng.integers(0, 5, (_SAMPLES, 4))
    return [[rng.choice(np.arange(36, 84), size, replace=False).tolist() for size in row] for row in sizes]


def sound(chords: Sequence[Sequence[int]]) -> Array:
    """A window of plucked notes, each with eight harmonics that die away, float32 [1, SAMPLES, 1]."""
    out = np.zeros(SAMPLES)
    for place, chord in enumerate(chords):
        begin = int(place * _CHORD * RATE) + 1024
        time = np.arange(int(_CHORD * RATE)) / RATE
        for note in chord:
            pitch = 440.0 * 2.0 ** ((note - 69) / 12)
            tone = sum(
                np.sin(2 * np.pi * pitch * number * time) * np.exp(-(1.5 + number) * time) / number
                for number in range(1, 9)
                if pitch * number < RATE / 2
            )
            edge = np.minimum(1.0, np.minimum(time, time[::-1]) / 0.005)
            out[begin : begin + len(time)] += 0.15 * np.asarray(tone) * edge
    out += 1e-4 * np.random.default_rng(len(chords)).standard_normal(SAMPLES)
    return out.astype(np.float32)[None, :, None]


def keys_of(chords: Sequence[Sequence[int]]) -> Array:
    """Which keys sound in each chord, bool [chords, KEYS]."""
    found = np.zeros((len(chords), KEYS), bool)
    for place, chord in enumerate(chords):
        found[place, [note - LOWEST for note in chord]] = True
    return found


def heard(frames: Array, chords: int) -> Array:
    """The keys that sound in the middle of each chord, from the result for all frames; int64 [chords,
    KEYS]."""
    found = []
    for place in range(chords):
        first = int(((place + 0.25) * _CHORD * RATE + 1024) / HOP)
        last = int(((place + 0.75) * _CHORD * RATE + 1024) / HOP)
        found.append(frames[first:last].mean(axis=0) > _THRESHOLD)
    return np.array(found).astype(np.int64)


def task() -> Task:
    """Windows of single notes and chords; the metric is F1 of the keys that sound."""
    model = package_file(PACKAGE, "basic_pitch", "saved_models/icassp_2022/nmp.onnx")
    truth = np.concatenate([keys_of(chords) for chords in MUSIC])
    runs: list[Inputs] = [{_INPUT: sound(chords)} for chords in MUSIC]

    def answers(outputs: Sequence[Outputs]) -> Array:
        windows = zip(outputs, MUSIC, strict=True)
        return np.concatenate([heard(found[_NOTES][0], len(chords)) for found, chords in windows])

    return Task(
        name="Basic Pitch",
        model=model,
        runs=runs,
        answers=answers,
        scores={"F1 of notes": lambda found, _: f1(found, truth)},
        samples=[{_INPUT: sound(chords)} for chords in other_music()],
        shapes={_INPUT: (1, SAMPLES, 1)},
        about="the notes of a window of two seconds",
    )
