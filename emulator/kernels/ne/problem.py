"""The computation of one matrix engine instruction as int64 words at an address: a *problem*.

The kernel of a record writes the words to the beginning of the scratch. Copies of the vectors of bias and
scales follow, so that a result may overlap the originals. The functions of the engine read the words by name.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from emulator.memory.rows import clear, overlap
from emulator.native.primitives.memory import copy_bytes, get, put
from tx8isa.numbers.layouts import batch_bytes, used_bytes
from tx8isa.numbers.limits import LARGEST_CHANNELS

from .elements import element_bytes

# Addresses of the host.
A = 0  # left operand: matrices or images
B = 1  # right operand: matrices or weights; of a weight gradient, the gradient of the results
OUT = 2  # final place of the result
RESULT = 3  # place of its computation: OUT, or working memory if OUT overlaps an operand
PSUM = 4  # partial sums, at OUT or not overlapping it
WORK = 5  # working memory, see groups.py
WORK_BYTES = 6  # its size

# Formats, as their codes.
OUT_FORMAT = 7  # of the result
PSUM_FORMAT = 8  # of the partial sums; NO_PSUM: every sum starts at 0

# The result as a product: [M, N] for every matrix or image, a sum has K steps for every tap.
M = 9  # rows of a matrix, or positions of an image
K = 10  # columns of A, or input channels
N = 11  # columns of B, or channels of the result
TAPS = 12  # positions of the window; 1 for matrices

# GEMM.
LT = 13  # 1 if A is stored as [K, M]
RT = 14  # whether B is stored as [K, N] and not as [N, K]
LB = 15  # matrices of A
RB = 16  # matrices of B; LB and RB are equal, or one of them is 1

# Convolutions. Result (0, 0) reads input rows from -TOP and columns from -LEFT.
BATCH = 17  # images
H = 18  # rows of an input image
W = 19  # columns of an input image
C = 20  # channels of an input image
OH = 21  # rows of a result
OW = 22  # columns of a result
MAPS = 23  # channels of a result
KY = 24  # rows of the window
KX = 25  # columns of the window
SY = 26  # stride along rows
SX = 27  # stride along columns
DY = 28  # dilation along rows
DX = 29  # dilation along columns
TOP = 30  # pad above, less the unpad; may be negative
LEFT = 31  # pad on the left, less the unpad; may be negative

# Post-processing of a finished sum.
BIAS = 32  # address of one number for each channel of the result, or 0
SCALE_P = 33  # address of the factors of sums that are not negative, or 0
SCALE_N = 34  # address of the factors of negative sums, or 0
RELU = 35  # flag
LRELU = 36  # flag
ZERO_A = 37  # zero point of A, signed
ZERO_B = 38  # zero point of B, signed
ZERO_OUT = 39  # zero point of the result, signed
Q1 = 40  # bits of the first shift to INT8
Q0 = 41  # bits of the second shift to INT8

IN_PLACE = 42  # flag: products may add in the result, because its rows have the form of a group's

WORDS = 48  # whole lines of 64 bytes, so that working memory is as aligned as the scratch
NO_PSUM = -1

# The copies of vectors, in bytes from the beginning of the problem.
BIAS_AT = 8 * WORDS
SCALE_P_AT = BIAS_AT + 4 * LARGEST_CHANNELS
SCALE_N_AT = SCALE_P_AT + 4 * LARGEST_CHANNELS
PROBLEM_BYTES = SCALE_N_AT + 4 * LARGEST_CHANNELS


def make_problem(**words: int) -> npt.NDArray[np.int64]:
    """Make a problem outside of a kernel: words by their names in lower case, others 0, no partial sums."""
    problem = np.zeros(WORDS, np.int64)
    problem[PSUM_FORMAT] = NO_PSUM
    for name, value in words.items():
        problem[globals()[name.upper()]] = value
    return problem


def set_product(problem: int, m: int, k: int, n: int, taps: int) -> None:
    """Set the product of a convolution; its sums are in the group."""
    put(problem, M, m)
    put(problem, K, k)
    put(problem, N, n)
    put(problem, TAPS, taps)
    put(problem, IN_PLACE, 0)


# --- tensors ------------------------------------------------------------------------------------------------


def image_bytes(problem: int, bits: int) -> int:
    """Return the size of one input image with elements of ``bits`` bits."""
    return batch_bytes(get(problem, H) * get(problem, W), get(problem, C), bits)


def result_bytes(problem: int, format_word: int) -> int:
    """Return the size of one matrix or image of the result in a format: ``OUT_FORMAT`` or ``PSUM_FORMAT``."""
    size = element_bytes(get(problem, format_word))
    return batch_bytes(get(problem, M), get(problem, N), 8 * size)


def result_at(problem: int, i: int) -> int:
    """Return the address of matrix or image ``i`` of the result while it is computed."""
    return get(problem, RESULT) + i * result_bytes(problem, OUT_FORMAT)


def psum_at(problem: int, i: int) -> int:
    """Return the address of the partial sums of matrix or image ``i``."""
    return get(problem, PSUM) + i * result_bytes(problem, PSUM_FORMAT)


def clear_gap(problem: int, i: int) -> None:
    """Zero the bytes from the last row of matrix or image ``i`` of the result to the next 256-byte line."""
    size = element_bytes(get(problem, OUT_FORMAT))
    used = used_bytes(get(problem, M), get(problem, N), 8 * size)
    clear(result_at(problem, i) + used, result_bytes(problem, OUT_FORMAT) - used)


def choose_result(problem: int, size: int, a_bytes: int, b_bytes: int, spare: int) -> None:
    """Set ``RESULT``: a result of ``size`` bytes that would overlap A or B is computed at ``spare``."""
    out = get(problem, OUT)
    clash = overlap(out, size, get(problem, A), a_bytes)
    clash = clash or overlap(out, size, get(problem, B), b_bytes)
    put(problem, RESULT, spare if clash else out)


def deliver(problem: int, size: int) -> None:
    """Copy a result from working memory to its final place."""
    if get(problem, RESULT) != get(problem, OUT):
        copy_bytes(get(problem, OUT), get(problem, RESULT), size)
