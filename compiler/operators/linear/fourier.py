"""Discrete Fourier transforms, as products with a matrix of known cosines and sines.

The last axis of a signal has its real part, or its real and imaginary parts. Entries are computed in binary64
from angles reduced to one turn. Products are in FP32, whatever the format of the graph.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from compiler.graph import FLOATS, Array, Shape
from compiler.operators.elements.casting import as_type
from compiler.operators.expansion.builder import Builder
from compiler.operators.expansion.composite import composite
from compiler.operators.expansion.parts import permuted, reshaped, sliced
from compiler.operators.record import Attribute, Call, Input, Output, Types, rule
from compiler.operators.types import FLOAT, INDEX, axis_from_front

_MOST_ENTRIES = 1 << 26
"""The most entries of the matrix of a transform."""
_MOST_PIECES = 32
"""The most pieces per frame; frames with more are gathered sample by sample."""


@lru_cache(maxsize=8)
def _matrix(rows: int, columns: int, length: int, inverse: bool) -> Array:
    """Return powers of the roots of unity, complex: exp(-2 pi i n k / length), or the inverse."""
    turns = np.outer(np.arange(rows), np.arange(columns)) % length
    roots = np.exp((2j if inverse else -2j) * np.pi * np.arange(length) / length)
    return np.asarray(roots[turns] / (length if inverse else 1))


def _of_parts(matrix: Array, complex_in: bool, complex_out: bool) -> Array:
    """Write a complex matrix as a real one, where real and imaginary parts of rows and of columns are
    neighbours."""
    real = np.stack([matrix.real, matrix.imag], axis=-1)
    made = np.stack([real, np.stack([-matrix.imag, matrix.real], axis=-1)], axis=1)
    made = made[:, : 1 + complex_in, :, : 1 + complex_out]
    return np.asarray(made.reshape(made.shape[0] * made.shape[1], -1))


def _real_inverse(rows: int, length: int) -> Array:
    """Return the inverse of a real transform, whose first ``rows`` values are known.

    Each value occurs twice, once conjugated. Exceptions are the first value, and the middle one of an even
    length, which are real.
    """
    matrix = 2 * _matrix(rows, length, length, True)
    for row in {0, length // 2} if length % 2 == 0 else {0}:
        if row < rows:
            matrix[row] = matrix[row].real / 2
    return matrix


def _one_number(call: Call, at: int, default: int) -> int:
    """Return the value of an operand of one number that may be omitted."""
    value = call.value_ints(at)
    return default if value is None else value[0]


# --- DFT ---------------------------------------------------------------------------------------------------


def _inverts(call: Call) -> bool:
    return bool(call.integer("inverse"))


def _is_one_sided(call: Call) -> bool:
    return bool(call.integer("onesided"))


def _axis(call: Call) -> int:
    return axis_from_front(_one_number(call, 2, -2), call.tensor(0).rank)


def _length(call: Call) -> int:
    """Return the number of samples that are transformed."""
    size = call.shape(0)[_axis(call)]
    return _one_number(call, 1, 2 * (size - 1) if _inverts(call) and _is_one_sided(call) else size)


def _used(call: Call) -> int:
    """Return the number of elements that are read from the operand; missing ones are zeros."""
    length, size = _length(call), call.shape(0)[_axis(call)]
    return min(size, length // 2 + 1 if _inverts(call) and _is_one_sided(call) else length)


def _dft_matrix(call: Call) -> Array:
    length, used = _length(call), _used(call)
    if _inverts(call) and _is_one_sided(call):
        return _of_parts(_real_inverse(used, length), True, False)
    count = length // 2 + 1 if _is_one_sided(call) else length
    return _of_parts(_matrix(used, count, length, _inverts(call)), call.shape(0)[-1] == 2, True)


def _dft_result(call: Call) -> tuple[str, Shape]:
    shape = list(call.shape(0))
    real = _inverts(call) and _is_one_sided(call)
    half = _is_one_sided(call) and not real
    shape[_axis(call)] = _length(call) // 2 + 1 if half else _length(call)
    return call.tensor(0).dtype, (*shape[:-1], 1 if real else 2)


def _dft(build: Builder, call: Call) -> tuple[str, ...]:
    axis, rank, (dtype, shape) = _axis(call), call.tensor(0).rank, _dft_result(call)
    x = as_type(build, sliced(build, call.name(0), axis, 0, _used(call)), "float32")
    order = [at for at in range(rank) if at not in (axis, rank - 1)]
    x = permuted(build, x, *order, axis, rank - 1)
    matrix = build.constant(_dft_matrix(call), "float32")
    product = build("MatMul", reshaped(build, x, -1, build.shape(matrix)[0]), matrix)
    made = reshaped(build, product, *(shape[at] for at in order), shape[axis], shape[-1])
    back = np.argsort([*order, axis, rank - 1]).tolist()
    return (as_type(build, permuted(build, made, *back), dtype),)


@rule
def parts_are_last(call: Call) -> str | None:
    """The operand must have rank 2 or more, and 1 or 2 elements on its last axis, the parts of numbers"""
    shape = call.shape(0)
    return None if len(shape) > 1 and shape[-1] in (1, 2) and 0 not in shape else f"shape {list(shape)}"


@rule
def axis_of_signal(call: Call) -> str | None:
    """axis must be one number in [-r, -2] or [0, r-2], r being the rank of the operand"""
    value, rank = call.value_ints(2), call.tensor(0).rank
    fits = value is None or (len(value) == 1 and (-rank <= value[0] <= -2 or 0 <= value[0] <= rank - 2))
    return None if fits else f"axis {list(value or ())} with r = {rank}"


@rule
def length_is_positive(call: Call) -> str | None:
    """dft_length must be one number above 0, and without it the operand of a onesided inverse have two
    elements"""
    value = call.value_ints(1)
    if value is not None and len(value) != 1:
        return f"{len(value)} numbers"
    return None if _length(call) > 0 else f"{_length(call)}"


@rule
def one_side_is_of_real_numbers(call: Call) -> str | None:
    """With onesided 1, the operand must be real, of an inverse complex"""
    wanted = 2 if _inverts(call) else 1
    parts = call.shape(0)[-1]
    return f"{parts} parts" if _is_one_sided(call) and parts != wanted else None


@rule
def matrix_is_small(call: Call) -> str | None:
    """The length times the elements that are read, with their parts, must be at most 2**26"""
    entries = (
        _used(call) * call.shape(0)[-1] * math.prod(_dft_result(call)[1][at] for at in (_axis(call), -1))
    )
    return f"{entries} for a length of {_length(call)}" if entries > _MOST_ENTRIES else None


composite(
    name="DFT",
    since=20,
    summary="Discrete Fourier transform along an axis; real and imaginary parts are on the last one",
    inputs=(
        Input("input", FLOAT.named("T1")),
        Input("dft_length", INDEX.named("T2"), optional=True, constant=True),
        Input("axis", Types("tensor(int64)", ("int64",)), optional=True, constant=True),
    ),
    outputs=(Output("output", FLOAT.named("T1")),),
    expansion=_dft,
    attributes=(
        Attribute("inverse", "int", 0, allowed=(0, 1)),
        Attribute("onesided", "int", 0, allowed=(0, 1)),
    ),
    rules=(parts_are_last, axis_of_signal, length_is_positive, one_side_is_of_real_numbers, matrix_is_small),
    precise=True,
    result=_dft_result,
)


# --- STFT --------------------------------------------------------------------------------------------------


def _frame_length(call: Call) -> int:
    return _one_number(call, 3, call.shape(2)[0] if call.has(2) else call.shape(0)[1])


def _frames(call: Call) -> int:
    return (call.shape(0)[1] - _frame_length(call)) // _one_number(call, 1, 1) + 1


def _bins(call: Call) -> int:
    return _frame_length(call) // 2 + 1 if _is_one_sided(call) else _frame_length(call)


def _stft_result(call: Call) -> tuple[str, Shape]:
    return call.tensor(0).dtype, (call.shape(0)[0], _frames(call), _bins(call), 2)


def _framed(build: Builder, call: Call, x: str) -> str:
    """Return the frames of a signal [batch, samples, parts], as [batch, frames, length, parts]."""
    batch, samples, parts = build.shape(x)
    step, length, frames = _one_number(call, 1, 1), _frame_length(call), _frames(call)
    if -(-length // step) > _MOST_PIECES:
        places = np.arange(frames)[:, None] * step + np.arange(length)
        taken = build("Gather", x, build.constant(places.reshape(-1), "int64"), axis=1)
        return reshaped(build, taken, batch, frames, length, parts)
    end = (frames - 1 + -(-length // step)) * step
    if end > samples:
        x = build("Pad", x, build.ints(0, 0, 0, 0, end - samples, 0))
    pieces = []
    for begin in range(0, length, step):
        rows = reshaped(build, sliced(build, x, 1, begin, begin + frames * step), batch, frames, step, parts)
        pieces.append(sliced(build, rows, 2, 0, min(step, length - begin)))
    return build("Concat", *pieces, axis=2) if len(pieces) > 1 else pieces[0]


def _stft(build: Builder, call: Call) -> tuple[str, ...]:
    dtype, shape = _stft_result(call)
    length, parts = _frame_length(call), call.shape(0)[-1]
    x = as_type(build, call.name(0), "float32")
    matrix = _of_parts(_matrix(length, _bins(call), length, False), parts == 2, True)
    weights = build.constant(matrix, "float32")
    if call.has(2):
        window = reshaped(build, as_type(build, call.name(2), "float32"), length, 1)
        window = reshaped(build, build("Expand", window, build.ints(length, parts)), length * parts, 1)
        weights = build("Mul", weights, window)
    frames = reshaped(build, _framed(build, call, x), -1, length * parts)
    return (as_type(build, reshaped(build, build("MatMul", frames, weights), *shape), dtype),)


@rule
def signal_has_parts(call: Call) -> str | None:
    """signal must be [batch, samples, 1], or [batch, samples, 2] with onesided 0"""
    shape = call.shape(0)
    allowed = (1,) if _is_one_sided(call) else (1, 2)
    return None if len(shape) == 3 and shape[2] in allowed and 0 not in shape else f"{list(shape)}"


@rule
def frames_fit(call: Call) -> str | None:
    """frame_step and frame_length must be one number above 0, the frame no longer than the signal, and the
    window as long as the frame"""
    for at, name in ((1, "frame_step"), (3, "frame_length")):
        value = call.value_ints(at)
        if value is not None and (len(value) != 1 or value[0] < 1):
            return f"{name} {list(value)}"
    if call.has(2) and call.shape(2) != (_frame_length(call),):
        return f"a window {list(call.shape(2))} for frames of {_frame_length(call)}"
    samples = call.shape(0)[1]
    return None if _frame_length(call) <= samples else f"frames of {_frame_length(call)} in {samples} samples"


@rule
def frame_matrix_is_small(call: Call) -> str | None:
    """The length of a frame times the numbers of its transform, with their parts, must be at most 2**26"""
    entries = _frame_length(call) * call.shape(0)[2] * _bins(call) * 2
    return f"{entries} for frames of {_frame_length(call)}" if entries > _MOST_ENTRIES else None


composite(
    name="STFT",
    since=17,
    summary="Discrete Fourier transforms of frames of a signal, each multiplied by a window",
    inputs=(
        Input("signal", FLOAT.named("T1")),
        Input("frame_step", INDEX.named("T2"), constant=True),
        Input("window", Types("T1", FLOATS), optional=True),
        Input("frame_length", INDEX.named("T2"), optional=True, constant=True),
    ),
    outputs=(Output("output", FLOAT.named("T1")),),
    expansion=_stft,
    attributes=(Attribute("onesided", "int", 1, allowed=(0, 1)),),
    rules=(signal_has_parts, frames_fit, frame_matrix_is_small),
    precise=True,
    result=_stft_result,
)
