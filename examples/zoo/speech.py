"""Speech with known beginnings and ends, between pauses and in noise.

espeak-ng speaks if it is installed (on Debian: apt-get install espeak-ng). Otherwise a voice is made here:
the pulses of a larynx go through three resonances, which change from vowel to vowel, and noise imitates
consonants.
"""

from __future__ import annotations

import io
import shutil
import subprocess
import wave
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

RATE = 16000
"""Samples for each second."""

SENTENCES = (
    "The quick brown fox jumps over the lazy dog.",
    "A matrix engine multiplies sixteen rows at once.",
    "Please leave a message after the tone.",
    "It was raining when the train arrived in the old town.",
    "How many tiles are there on this chip?",
    "Nobody answered the telephone that evening.",
    "She put the letters into a small wooden box.",
    "Numbers are rounded to the nearest even one.",
    "Two brothers walked along the river until noon.",
    "Every program ends with the same instruction.",
    "Would you like another cup of black coffee?",
    "Their garden is behind the house on the hill.",
    "Snow fell on the mountains during the night.",
    "The third barrier waits for all sixteen tiles.",
    "My sister plays the violin better than I do.",
    "Turn left at the bridge and go straight ahead.",
    "An old clock was ticking in the empty kitchen.",
    "Constants are loaded before they are needed.",
    "Seven ships left the harbour at the same time.",
    "Where did you put the keys of the blue car?",
    "He reads the newspaper while he eats breakfast.",
    "The shortest path leads through the forest.",
    "Half of the windows were open when we came.",
    "Both answers differ only in their last digit.",
)
"""Each recording has the next two, so that twelve recordings have no sentence in common."""
_VOWELS = (
    (730, 1090, 2440),
    (270, 2290, 3010),
    (300, 870, 2240),
    (530, 1840, 2480),
    (570, 840, 2410),
    (660, 1720, 2410),
)
"""Resonances of vowels in hertz: the first three formants of a man (Peterson and Barney, 1952)."""
_WIDTHS = (60, 90, 150)
"""Their widths in hertz."""


def has_espeak() -> bool:
    """Whether espeak-ng speaks."""
    return shutil.which("espeak-ng") is not None


def spoken(number: int) -> Array:
    """A sentence, float32 at ``RATE``, as loud as 0.1 on average, without silence at its ends."""
    sound = _espeak(number) if has_espeak() else _voice(number)
    loud = np.flatnonzero(np.abs(sound) > 0.02 * np.abs(sound).max())
    sound = sound[loud[0] : loud[-1] + 1]
    return (0.1 * sound / np.sqrt(np.mean(sound**2))).astype(np.float32)


def recording(number: int, seconds: float = 8.0) -> tuple[Array, Array]:
    """Two sentences with pauses around them, in noise: the samples, and a bool for each sample that says
    whether it is speech."""
    random = np.random.default_rng(number)
    total = int(seconds * RATE)
    sound, speech = np.zeros(total), np.zeros(total, bool)
    at = int(random.uniform(0.6, 1.0) * RATE)
    for part in (2 * number, 2 * number + 1):
        sentence = spoken(part % len(SENTENCES))[: max(total - at, 0)]
        sound[at : at + len(sentence)] += sentence
        speech[at : at + len(sentence)] = True
        at += len(sentence) + int(random.uniform(0.8, 1.2) * RATE)
    level = (0.0005, 0.002, 0.006, 0.015)[number % 4]
    return (sound + level * random.standard_normal(total)).astype(np.float32), speech


def _espeak(number: int) -> Array:
    """A sentence by espeak-ng, resampled to ``RATE`` by linear interpolation."""
    voice = ("en", "en-us", "en+f3", "en+m2")[number % 4]
    command = ["espeak-ng", "-v", voice, "-s", "150", "--stdout", SENTENCES[number]]
    data = subprocess.run(command, check=True, capture_output=True).stdout
    with wave.open(io.BytesIO(data)) as file:
        rate = file.getframerate()
    samples = np.frombuffer(data[44:], np.int16) / 32768.0
    places = np.arange(int(len(samples) * RATE / rate)) * rate / RATE
    return np.interp(places, np.arange(len(samples)), samples)


def _voice(number: int) -> Array:
    """Some twenty syllables of a made-up voice."""
    random = np.random.default_rng(1000 + number)
    return np.concatenate([part for _ in range(10) for part in _syllable(random)])


def _syllable(random: np.random.Generator) -> tuple[Array, Array]:
    """A consonant of noise and a vowel."""
    hiss = 0.05 * random.standard_normal(int(random.uniform(0.03, 0.07) * RATE))
    count = int(random.uniform(0.12, 0.22) * RATE)
    time = np.arange(count) / RATE
    pitch = random.uniform(95, 135) * (1 - 0.15 * time / time[-1]) * (1 + 0.01 * np.sin(2 * np.pi * 5 * time))
    turns = np.cumsum(pitch) / RATE
    source = np.diff(np.floor(turns), prepend=0.0) + 0.02 * random.standard_normal(count)
    vowel = _VOWELS[int(random.integers(len(_VOWELS)))]
    sound = sum(_resonance(source, formant, width) for formant, width in zip(vowel, _WIDTHS, strict=True))
    edge = np.minimum(1.0, np.minimum(np.arange(count), np.arange(count)[::-1]) / (0.015 * RATE))
    return hiss, np.asarray(sound) * edge


def _resonance(source: Array, frequency: float, width: float) -> Array:
    """A source through a filter of two poles."""
    radius = np.exp(-np.pi * width / RATE)
    a, b = 2 * radius * np.cos(2 * np.pi * frequency / RATE), -(radius**2)
    out = np.zeros(len(source) + 2)
    for at, value in enumerate(source):
        out[at + 2] = (1 - radius) * value + a * out[at + 1] + b * out[at]
    return out[2:]
