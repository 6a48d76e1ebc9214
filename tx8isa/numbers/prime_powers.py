"""Powers of generators of the residues of primes, by which fields divide and take roots."""

from __future__ import annotations

from functools import cache

import numpy as np
import numpy.typing as npt


@cache
def powers_of(prime: int, generator: int) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """Return the powers 0 .. p - 2 of a generator, and the exponent of each residue 1 .. p - 1."""
    powers = np.ones(prime - 1, np.int64)
    known = 1
    while known < prime - 1:
        count = min(known, prime - 1 - known)
        powers[known : known + count] = powers[:count] * pow(generator, known, prime) % prime
        known += count
    exponents = np.zeros(prime, np.int32)
    exponents[powers] = np.arange(prime - 1, dtype=np.int32)
    return powers.astype(np.int32), exponents


@cache
def generator_of(prime: int) -> int:
    """Return the smallest generator of the residues of a prime."""
    rest, factors, factor = prime - 1, set[int](), 2
    while factor * factor <= rest:
        while rest % factor == 0:
            factors.add(factor)
            rest //= factor
        factor += 1
    factors |= {rest} - {1}
    return next(g for g in range(2, prime) if all(pow(g, (prime - 1) // f, prime) != 1 for f in factors))
