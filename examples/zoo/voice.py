"""Silero hears whether somebody speaks: a network that is called with 32 ms of sound at a time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from speech import RATE, has_espeak, recording
from task import Array, Inputs, Outputs, Task, f1, package_file

PACKAGE = "silero-vad==6.2.3"
FRAME, CONTEXT, STATE = 512, 64, 128
"""Samples of a frame, earlier samples that the network also needs, and the width of its state."""

_THRESHOLD = 0.5
RECORDINGS = 4
SAMPLES = 8
"""Recordings of other sentences, for the calibration of bytes."""
_STREAMED_SECONDS = 4.0


def frames(sound: Array) -> Array:
    """The frames of a recording with their context, float32 [frames, CONTEXT + FRAME]."""
    whole = sound[: len(sound) // FRAME * FRAME].reshape(-1, FRAME)
    before = np.concatenate([np.zeros((1, CONTEXT), np.float32), whole[:-1, -CONTEXT:]])
    return np.concatenate([before, whole], axis=1)


def spoken_frames(speech: Array) -> Array:
    """The frames of which more than half is speech."""
    return speech[: len(speech) // FRAME * FRAME].reshape(-1, FRAME).mean(axis=1) > 0.5


def _source() -> str:
    return "espeak-ng" if has_espeak() else "a made-up voice (espeak-ng is not installed)"


def whole_task() -> Task:
    """The variant that takes a whole recording: four of eight seconds, and others for calibration."""
    model = package_file(PACKAGE, "silero_vad", "data/silero_vad_16k_sequence.onnx")
    recordings = [recording(number) for number in range(RECORDINGS + SAMPLES)]
    sounds, judged = [sound for sound, _ in recordings], recordings[:RECORDINGS]
    truth = np.concatenate([spoken_frames(speech) for _, speech in judged])
    zero = np.zeros((1, 1, STATE), np.float32)
    inputs: list[Inputs] = [{"input": frames(sound), "h": zero, "c": zero} for sound in sounds]

    def answers(outputs: Sequence[Outputs]) -> Array:
        return np.concatenate([found["speech_probs"] > _THRESHOLD for found in outputs]).astype(np.int64)

    return Task(
        name="Silero, whole recording",
        model=model,
        runs=inputs[:RECORDINGS],
        answers=answers,
        scores={"F1": lambda found, _: f1(found, truth)},
        shapes={name: array.shape for name, array in inputs[0].items()},
        samples=inputs[RECORDINGS:],
        about=f"speech or not for {len(inputs[0]['input'])} frames of a recording; speech by {_source()}",
    )


def stream_task() -> Task:
    """The variant that takes a frame and its state; its ``If`` depends on the rate, which never changes."""
    model = package_file(PACKAGE, "silero_vad", "data/silero_vad.onnx")
    sound, speech = recording(1, _STREAMED_SECONDS)
    truth = spoken_frames(speech)
    state = np.zeros((2, 1, STATE), np.float32)
    runs: list[Inputs] = [{"input": frame[None], "state": state} for frame in frames(sound)]

    def answers(outputs: Sequence[Outputs]) -> Array:
        return np.array([int(found["output"].item() > _THRESHOLD) for found in outputs])

    return Task(
        name="Silero, streaming",
        model=model,
        runs=runs,
        answers=answers,
        scores={"F1": lambda found, _: f1(found, truth)},
        shapes={name: array.shape for name, array in runs[0].items()},
        constants={"sr": np.array(RATE, np.int64)},
        carried={"state": "stateN"},
        about=f"speech or not for one frame and the state after it; speech by {_source()}",
    )
