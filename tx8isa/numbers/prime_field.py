"""Arithmetic in prime fields in place of floats, for proofs of programs (docs/proving.md).

An element has one residue for each of ``PRIMES``. With exponentials it has a second residue for each p,
modulo the prime order q of the squares modulo p. ``exp`` modulo p is a power of a generator whose exponent is
the residue modulo q, so ``exp(a + b) = exp(a) * exp(b)`` holds. Modulo q ``exp`` is 1, which obeys the same
law; so it may be nested. Residues are binary64 numbers of at most half the prime in magnitude; sums of
``MOST_TERMS`` products are exact, in any order. Arrays of elements have the residues as their first axis.

Infinities stay infinities: they initialise maxima and hide masked elements. NaN is an unknown element.
Functions without algebraic laws are keyed hashes of their operands. A maximum is the operand that comes later
in a keyed order, so it is associative, commutative and idempotent.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from . import simple_fractions as fractions
from .formats import MANTISSA_BITS, Format, largest_number
from .keyed_order import RELATIONS, append_exponents, place_numbers, spread, with_sign
from .packing import stored_numbers
from .prime_powers import generator_of, powers_of
from .rounding import rounded

Elements = npt.NDArray[np.float64]
"""Shape [residues, ...]."""
Words = npt.NDArray[np.uint64]
Integers = npt.NDArray[np.int64]

PRIMES = (4084079, 4065599, 3954719)
"""The largest safe primes p = 2 q + 1 below 2**22 for which p + 1 is a multiple of 16 * 3 * 5 * 7 * 11.

So 2, 3, 5, 7 and 11 are squares for p and q, and the root of the square of a product of them is the product.
"""
_HALVES = tuple(prime // 2 for prime in PRIMES)
"""The primes q."""
MOST_TERMS = 2048
"""Number of products of two residues whose sum is exact in binary64."""
_HIDING = float(np.float32(1e30))
"""Masks hide elements with numbers of at least this magnitude."""
_LOG2_E = math.log2(math.e)
_FEW = 1 << 12
"""Most numbers whose elements are kept together, and most such groups."""
_PIECE = 1 << 14
"""Elements that are reduced at a time, so that they stay in the caches of the host."""


class PrimeField:
    """The fields that a proof computes in; ``seed`` makes its keys, ``compute`` is the program's format.

    ``given``: the single numbers of the graph, which a program may round to ``compute`` or not.
    """

    def __init__(
        self, seed: int, exponentials: bool, compute: Format = Format.FP32, given: Iterable[float] = ()
    ) -> None:
        self.seed, self.compute, self._given = seed, compute, fractions.GivenNumbers(given, compute)
        self.primes = len(PRIMES)
        self.moduli = np.array((*PRIMES, *_HALVES) if exponentials else PRIMES, np.float64)
        """The prime of each residue; the primes of exponents are last."""
        self._tables: dict[Format, Elements] = {}
        self._kept: dict[object, Elements] = {}
        """Elements of numbers that were converted before: tiles and loops read the same ones."""

    @property
    def residues(self) -> int:
        return self.moduli.size

    def _moduli(self, x: Elements) -> Elements:
        return self.moduli.reshape(-1, *(1,) * (x.ndim - 1))

    # -- algebra ------------------------------------------------------------------------------------------

    def reduced(self, x: Elements) -> Elements:
        """Reduce whole numbers below 2**53 to residues of about half the prime; infinities and NaN stay."""
        whole = np.asarray(x).reshape(self.residues, -1)
        found = np.empty(whole.shape)
        finite, multiple = True, np.empty(min(whole.shape[1], _PIECE))
        with np.errstate(invalid="ignore"):
            for given, made, modulus in zip(whole, found, self.moduli.tolist(), strict=True):
                for at in range(0, given.size, _PIECE):
                    piece, result = given[at : at + _PIECE], made[at : at + _PIECE]
                    times = multiple[: piece.size]
                    np.multiply(piece, 1.0 / modulus, out=times)
                    np.rint(times, out=times)
                    times *= modulus
                    np.subtract(piece, times, out=result)
                    finite = finite and math.isfinite(np.add.reduce(result))
        if not finite:
            np.copyto(found, whole, where=np.isinf(whole))
        return found.reshape(x.shape)

    def canonical(self, x: Elements) -> Elements:
        """Reduce an element to its unique residues of at most half the prime in magnitude."""
        found, half = self.reduced(x), (self._moduli(x) - 1) / 2
        above, below = found > half, found < -half
        if above.any() or below.any():
            finite = np.isfinite(found)
            found -= self._moduli(x) * (above & finite)
            found += self._moduli(x) * (below & finite)
        found += 0.0  # no zero is negative
        return found

    def add(self, a: Elements, b: Elements) -> Elements:
        with np.errstate(invalid="ignore"):
            return self.reduced(a + b)

    def subtract(self, a: Elements, b: Elements) -> Elements:
        with np.errstate(invalid="ignore"):
            return self.reduced(a - b)

    def multiply(self, a: Elements, b: Elements) -> Elements:
        """Multiply elements; a product with an infinity has its sign, but that of 0 is 0, of -1 the other."""
        with np.errstate(invalid="ignore"):
            product = self.reduced(a * b)
            if not _all_finite(product):
                of_a, of_b = np.isinf(a), np.isinf(b)
                product = np.where(of_a & ~of_b, with_sign(a, self.canonical(b)), product)
                product = np.where(of_b & ~of_a, with_sign(b, self.canonical(a)), product)
        return product

    def product(self, a: Elements, b: Elements) -> Elements:
        """Multiply matrices [residues, ..., m, k] and [residues, ..., k, n]."""
        total: Elements | None = None
        for first in range(0, a.shape[-1], MOST_TERMS):
            end = first + MOST_TERMS
            with np.errstate(invalid="ignore"):  # infinities
                part = self.reduced(np.matmul(a[..., first:end], b[..., first:end, :]))
            total = part if total is None else self.add(total, part)
        if total is None:
            return np.zeros((*np.broadcast_shapes(a.shape[:-2], b.shape[:-2]), a.shape[-2], b.shape[-1]))
        return total

    def sum(self, x: Elements, axes: Sequence[int]) -> Elements:
        """Sum over axes, which stay with extent 1; axis 0 is the first one after the axis of residues."""
        with np.errstate(invalid="ignore"):
            return self.reduced(x.sum(axis=tuple(axis + 1 for axis in axes), keepdims=True))

    def inverse(self, x: Elements) -> Elements:
        """Return 1 / x; the inverse of 0 is an infinity, that of an infinity 0."""
        found = self.canonical(x)
        for at, (prime, generator) in enumerate(self._fields()):
            powers, exponents = powers_of(prime, generator)
            residues = self._whole(found[at]) % prime
            inverse = powers[(-exponents[residues]) % (prime - 1)].astype(np.float64)
            found[at] = np.where(residues == 0, np.inf, np.where(np.isinf(found[at]), 0.0, inverse))
        return self.reduced(found)

    def _fields(self) -> list[tuple[int, int]]:
        """Yield the prime and a generator of each residue."""
        primes = (*PRIMES, *_HALVES)[: self.residues]
        return [(prime, generator_of(prime)) for prime in primes]

    def exp(self, x: Elements) -> Elements:
        """Exponentiate: a power of a generator, 1 modulo q; a hash in a field without exponents."""
        if self.residues == self.primes:
            return self.hashed("exp", x)
        found = np.ones_like(x)
        exponents = self.canonical(x)[self.primes :]
        for at, (prime, generator) in enumerate(self._fields()[: self.primes]):
            exponent = self._whole(exponents[at]) % (prime // 2)
            power = powers_of(prime, generator)[0][2 * exponent]
            found[at] = np.where(power > prime // 2, power - prime, power)
        if not _all_finite(x):
            given = np.concatenate([exponents, exponents])
            found = np.where(np.isneginf(given), 0.0, np.where(np.isfinite(given), found, given))
        return found

    def pow2(self, x: Elements) -> Elements:
        """Raise 2 to a power, which is e to the power x / log2(e)."""
        return self.exp(self._times_log2e(x, -1))

    def log2(self, x: Elements) -> Elements:
        """Return the logarithm to base 2, which is the natural one times log2(e)."""
        return self._times_log2e(self.hashed("ln", x), 1)

    def _times_log2e(self, x: Elements, exponent: int) -> Elements:
        """Multiply elements by a power of the element that stands for log2(e): 0, 1 or -1."""
        element = self.hashed("log2(e)", np.ones((self.residues, *(1,) * (x.ndim - 1))))
        return self.multiply(x, self.inverse(element) if exponent < 0 else element) if exponent else x

    def sqrt(self, x: Elements) -> Elements:
        """Return a power whose square is the element or its negative; multiplicative, like square roots."""
        found = self.canonical(x)
        for at, (prime, generator) in enumerate(self._fields()):
            powers, exponents = powers_of(prime, generator)
            residues = self._whole(found[at]) % prime
            root = powers[exponents[residues].astype(np.int64) * ((prime + 1) // 4) % (prime - 1)]
            found[at] = np.where(residues == 0, 0.0, np.where(np.isfinite(found[at]), root, found[at]))
        return self.reduced(found)

    # -- functions without algebraic laws -----------------------------------------------------------------

    @staticmethod
    def _whole(x: Elements) -> npt.NDArray[np.int64]:
        """Convert residues to integers, infinities to numbers outside the residues."""
        if _all_finite(x):
            return x.astype(np.int64)
        return np.nan_to_num(x, nan=2.0**40, posinf=2.0**41, neginf=-(2.0**41)).astype(np.int64)

    def _mixed(self, name: str, *operands: Elements) -> Words:
        """Mix a name, the seed and all operands into 64 bits."""
        word = np.uint64(zlib.crc32(name.encode()) | self.seed << 32 & 0xFFFFFFFFFFFFFFFF)
        found: Words = np.asarray(word)
        with np.errstate(over="ignore"):
            for operand in operands:
                found = spread(found ^ self._whole(operand).astype(np.uint64))
        return found

    def hashed(self, name: str, x: Elements) -> Elements:
        """Hash elements with the key, residue by residue, never to 0; unknown exponents stay unknown."""
        return np.where(np.isnan(x), np.nan, self._hashed(name, self.canonical(x), self.moduli))

    def _hashed(self, name: str, own: Elements, moduli: Elements) -> Elements:
        modulus = moduli.reshape(-1, *(1,) * (own.ndim - 1))
        mixed = (self._mixed(name, own) >> np.uint64(12)) % (modulus - 1).astype(np.uint64)
        found = mixed.astype(np.float64) + 1.0
        return np.where(found > (modulus - 1) / 2, found - modulus, found)

    def whole(self, x: Elements, mode: int = 0) -> Elements:
        """Convert an element to an integer: a hash, by mode, into few residues; these stay as they are."""
        most = np.floor(self._moduli(x) / 64)
        own = self.canonical(x)
        inside = self.hashed(f"whole {mode}", own)
        return np.where((np.abs(own) <= most) | np.isinf(own), own, inside - most * np.rint(inside / most))

    def order(self, x: Elements) -> Words:
        """Return places in the keyed order [primes, ...]: numbers in natural order, infinities at ends.

        Elements that are equal modulo p follow in the order of their exponents, so only equal ones tie.
        """
        every = self.canonical(x)
        own, exponents = every[: self.primes], every[self.primes :]
        mixed = (self._mixed("order", own) >> np.uint64(1)) + np.uint64(1)
        place_numbers(own, self.moduli[: self.primes], mixed)
        if exponents.size:
            append_exponents(self._whole(exponents), mixed)
        if not _all_finite(own):
            mixed[np.isposinf(own)] = np.uint64(0xFFFFFFFFFFFFFFFF)
            mixed[np.isneginf(own)] = np.uint64(0)
        return mixed

    def larger(self, a: Elements, b: Elements, sign: int = 1) -> Elements:
        """Return the operand that is later in the keyed order, with ``sign`` -1 the earlier one."""
        first = self.order(a) >= self.order(b) if sign > 0 else self.order(a) <= self.order(b)
        return _unknown_where(np.isnan(a) | np.isnan(b), np.where(self._in_all(first), a, b))

    def limited(self, x: Elements, low: float = -128.0, high: float = 127.0) -> Elements:
        """Limit elements to numbers in the keyed order, by default as conversions to bytes do."""
        return self.larger(self.larger(x, np.full_like(x, low)), np.full_like(x, high), -1)

    def extreme(self, x: Elements, axis: int, sign: int = 1) -> Elements:
        """Return the last element along an axis in the keyed order, or the first; the axis keeps extent 1."""
        order = self.order(x)
        place = order.argmax(axis) if sign > 0 else order.argmin(axis)
        found = np.take_along_axis(x, np.expand_dims(self._in_all(place), axis), axis)
        return _unknown_where(np.asarray(np.isnan(x).any(axis, keepdims=True)), found)

    def holds(self, name: str, a: Elements, b: Elements) -> Elements:
        """Evaluate a relation by the keyed order: 1 where it holds, else 0."""
        found = self._in_all(RELATIONS[name](self.order(a), self.order(b))).astype(np.float64)
        return _unknown_where(np.isnan(a) | np.isnan(b), found)

    def truth(self, x: Elements) -> npt.NDArray[np.bool_]:
        """True where elements are not 0, prime by prime, with their exponents."""
        nonzero = self.canonical(x) != 0
        return self._in_all(nonzero[: self.primes] | nonzero[-self.primes :])

    def _in_all(self, of_primes: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Extend values by prime to all residues; the residue of an exponent copies its prime's value."""
        return of_primes if self.residues == self.primes else np.concatenate([of_primes, of_primes])

    def keys(self, x: Elements) -> Words:
        """Return a word for each element, made of its residues by the primes."""
        found = np.zeros(x.shape[1:], np.uint64)
        for residue in self.canonical(x)[: self.primes]:
            found = spread(found ^ self._whole(residue).astype(np.uint64))
        return found

    # -- numbers ------------------------------------------------------------------------------------------

    def of_numbers(self, values: npt.NDArray[np.float64]) -> Elements:
        """Convert numbers to elements, exactly."""
        flat = np.asarray(values, np.float64)
        return self._of_fractions(*fractions.exact_fractions(flat), flat)

    def of_scalars(self, values: npt.NDArray[np.float64], fmt: Format) -> Elements:
        """Convert immediate numbers to elements: the simplest fraction near each, or the root of one.

        A number of ``compute`` means the same in FP32. One that may be a given number rounded is this number.
        """
        key = fmt, values.shape, values.tobytes()
        return self._known(key, values.size, lambda: self._of_scalars(values, fmt))

    def _known(self, key: object, count: int, made: Callable[[], Elements]) -> Elements:
        """Return the elements that a function makes, which are kept if they are few."""
        found = self._kept.get(key)
        if found is None:
            found = made()
            found.flags.writeable = False
            if count <= _FEW and len(self._kept) < _FEW:
                self._kept[key] = found
        return found

    def _of_scalars(self, values: npt.NDArray[np.float64], fmt: Format) -> Elements:
        flat = self._with_infinities(values, fmt)
        whole = self._given.whole(flat)
        if (whole != flat).any():
            fmt, flat = Format.FP32, whole
        bits = MANTISSA_BITS[fmt], MANTISSA_BITS[self.compute]
        fraction = fractions.held_fractions(np.where(np.isfinite(flat), flat, 0.0), *bits)
        found = self._of_fractions(*fraction, flat)
        is_simple = fractions.are_simple(*fraction[:2])
        return found if fmt is not Format.FP32 else self._with_roots(found, flat, is_simple)

    def _with_infinities(self, values: Elements, fmt: Format) -> Elements:
        """Replace numbers by which masks hide by infinities: at least ``_HIDING``, the largest of ``fmt`` or
        ``compute``, and given ones that are lower than all of ``compute``."""
        if not fmt.is_float:
            return values
        largest = (np.abs(values) >= largest_number(fmt)) | (np.abs(values) == largest_number(self.compute))
        largest |= (np.abs(values) >= _HIDING) | np.isin(values, self._given.hiding)
        return np.where(largest, np.copysign(np.inf, values), values)

    def of_stored(self, values: npt.NDArray[Any], fmt: Format) -> Elements:
        """Convert numbers in memory, exact in a float format, to elements."""
        return self.of_patterns(rounded(values, fmt).view(f"u{fmt.bits // 8}"), fmt)

    def of_patterns(self, patterns: npt.NDArray[Any], fmt: Format) -> Elements:
        """Convert stored numbers to elements; FP32 numbers near a simple fraction or root become it."""
        if fmt.bits > 16:
            different, places = np.unique(patterns.astype(np.int64), return_inverse=True)
            numbers = self._with_infinities(stored_numbers(different, fmt), fmt)
            key = fmt, different.tobytes()
            found = self._known(key, different.size, lambda: self._meant(numbers, fmt))
            return found.take(places.reshape(patterns.shape), 1)
        if fmt not in self._tables:
            numbers = stored_numbers(np.arange(1 << fmt.bits), fmt)
            if fmt is Format.UINT8:  # programs compute with the signed byte that is 128 less
                numbers -= 128.0
            self._tables[fmt] = self.of_numbers(self._with_infinities(numbers, fmt))
        return self._tables[fmt].take(patterns, 1)

    def _meant(self, values: Elements, fmt: Format) -> Elements:
        if fmt is not Format.FP32:
            return self.of_numbers(values)
        finite = np.where(np.isfinite(values), values, 0.0)
        above, below, power, simple = fractions.stored_fractions(finite, MANTISSA_BITS[fmt])
        return self._with_roots(self._of_fractions(above, below, power, values), values, simple)

    def _with_roots(self, found: Elements, values: Elements, simple: npt.NDArray[np.bool_]) -> Elements:
        """Convert numbers to elements; numbers that are not ``simple`` become nearby roots of fractions, or
        these times log2(e) or ln(2)."""
        rest, one = np.where(np.isfinite(values) & ~simple, values, 0.0), np.ones_like(values)
        for number, exponent in ((1.0, 0), (_LOG2_E, 1), (1.0 / _LOG2_E, -1)):
            above, below, power, stands = fractions.simple_roots(rest, number)
            if stands.any():
                roots = np.copysign(1.0, values) * self.sqrt(self._of_fractions(above, below, power, one))
                found = np.where(stands, self._times_log2e(roots, exponent), found)
                rest = np.where(stands, 0.0, rest)
        return found

    def _of_fractions(self, above: Integers, below: Integers, power: Integers, numbers: Elements) -> Elements:
        """Convert ``above / below * 2**power`` to elements; infinities and NaN of ``numbers`` stay."""
        found = np.zeros((self.residues, *numbers.shape))
        for at, (prime, generator) in enumerate(self._fields()):
            powers, exponents = powers_of(prime, generator)
            logarithm = power * exponents[2].astype(np.int64) - exponents[below % prime]
            factor = powers[logarithm % (prime - 1)].astype(np.int64)
            found[at] = (above % prime * factor % prime).astype(np.float64)
        return np.where(np.isfinite(numbers), self.reduced(found), numbers)

    def random(self, name: str, shape: tuple[int, ...]) -> Elements:
        """Draw random elements, which depend on a name and the seed."""
        key = zlib.crc32(name.encode()) | self.seed << 32
        with np.errstate(over="ignore"):
            numbers = np.arange(int(np.prod(shape)), dtype=np.uint64)
            words = spread(numbers + spread(np.asarray(np.uint64(key))))
        found = np.empty((self.residues, words.size))
        for at, prime in enumerate(self.moduli):
            words = spread(words + np.uint64(at + 1))
            found[at] = ((words >> np.uint64(12)) % np.uint64(prime)).astype(np.float64)
        return self.reduced(found.reshape(self.residues, *shape))


def _unknown_where(unknown: npt.NDArray[np.bool_], x: Elements) -> Elements:
    """Make elements unknown (NaN) wherever an operand is unknown."""
    return np.where(unknown, np.nan, x) if unknown.any() else x


def _all_finite(x: Elements) -> bool:
    """Return True if there is neither an infinity nor a NaN; a sum of finite residues is finite."""
    with np.errstate(invalid="ignore"):
        return bool(np.isfinite(x.sum()))
