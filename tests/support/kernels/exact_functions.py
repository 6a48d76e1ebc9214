"""Transcendental functions by mpmath, as the numbers of ``exact_oracles``: 60 significant bits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from mpmath import libmp

import exact_oracles as oracle
from exact_oracles import Array, Reals
from tx8isa.numbers.formats import Format

Mpf = Any
"""A raw number of mpmath: sign, mantissa, exponent, length."""

_BITS = 60
_WORK = 80
_LARGE = libmp.from_int(1024)
"""Beyond it every exponential is 0 or infinity in each format, and everything that saturates has done so."""


def _clamped(x: Mpf) -> Mpf:
    if libmp.mpf_cmp(libmp.mpf_abs(x), _LARGE) > 0:
        return libmp.mpf_neg(_LARGE) if x[0] else _LARGE
    return x


def exp(x: Mpf) -> Mpf:
    return libmp.mpf_exp(_clamped(x), _WORK)


def pow2(x: Mpf) -> Mpf:
    return libmp.mpf_pow(libmp.ftwo, _clamped(x), _WORK)


def ln(x: Mpf) -> Mpf:
    return libmp.mpf_log(x, _WORK)


def log2(x: Mpf) -> Mpf:
    return libmp.mpf_div(ln(x), libmp.mpf_ln2(_WORK), _WORK)


def sin(x: Mpf) -> Mpf:
    return libmp.mpf_sin(x, _WORK)


def cos(x: Mpf) -> Mpf:
    return libmp.mpf_cos(x, _WORK)


def tanh(x: Mpf) -> Mpf:
    return libmp.mpf_tanh(_clamped(x), _WORK)


def sigmoid(x: Mpf) -> Mpf:
    return libmp.mpf_div(libmp.fone, libmp.mpf_add(libmp.fone, exp(libmp.mpf_neg(x)), _WORK), _WORK)


def softplus(x: Mpf) -> Mpf:
    """x itself above 20 (docs/isa.md, Functions)."""
    if libmp.mpf_cmp(x, libmp.from_int(20)) > 0:
        return x
    t = exp(x)
    if t[2] + t[3] < -_WORK:
        return t
    return ln(libmp.mpf_add(libmp.fone, t))  # the sum is exact


FUNCTIONS: dict[str, Callable[[Mpf], Mpf]] = {
    "log2": log2,
    "ln": ln,
    "pow2": pow2,
    "exp": exp,
    "exp_lp": pow2,
    "sin": sin,
    "cos": cos,
    "tanh": tanh,
    "sigmoid": sigmoid,
    "softplus": softplus,
}
ODD, EVEN = ("sin", "tanh"), ("cos",)


def true_values(name: str, fmt: Format, stored: Array) -> Reals:
    """The exact results, to 60 bits, for finite numbers that are not zero and in the function's domain."""
    x = oracle.reals(fmt, stored)
    if name == "exp_lp":
        product = oracle.mul(x, oracle.reals(Format.FP32, np.full(len(stored), 0x3FB8AA3B, np.uint32)))
        x = oracle.reals(Format.FP32, oracle.stored(Format.FP32, product, 0))
    magnitude = np.where(x.kind == oracle.INFINITE, 1 << 60, x.magnitude)
    negative = x.negative & (name not in (*ODD, *EVEN))
    results: dict[tuple[int, int, bool], tuple[int, int, int]] = {}
    found = []
    for key in zip(magnitude.tolist(), x.exponent.tolist(), negative.tolist(), strict=True):
        result = results.get(key)
        if result is None:
            man, exp_, minus = key
            value = FUNCTIONS[name](libmp.from_man_exp(-man if minus else man, exp_))
            sign, mantissa, exponent, _ = libmp.mpf_pos(value, _BITS, "n")
            result = results[key] = sign, int(mantissa), exponent
        found.append(result)
    sign, mantissa, exponent = (np.array(column, np.int64) for column in zip(*found, strict=True))
    negative = (sign == 1) ^ (x.negative & (name in ODD))
    return Reals(np.zeros_like(mantissa), negative, mantissa, exponent)
