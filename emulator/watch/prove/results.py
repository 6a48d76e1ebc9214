"""The results of a run's instructions, by the keys of the elements (``PrimeField.keys``)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from tx8isa.numbers.prime_field import Words

Numbers = npt.NDArray[np.int64]


class Results:
    """Elements that instructions have computed; ``made`` has the keys of each instruction, by its number."""

    def __init__(self, made: Sequence[tuple[int, Words]]) -> None:
        keys = np.concatenate([np.zeros(0, np.uint64), *(each for _, each in made)])
        numbers = np.repeat([number for number, _ in made], [each.size for _, each in made])
        self._keys, first = np.unique(keys, return_index=True)
        self._numbers = numbers.astype(np.int64)[first]

    def numbers(self, keys: Words) -> Numbers:
        """Return the number of the instruction that first computed each element; 0 if none has."""
        if not self._keys.size:
            return np.zeros(keys.shape, np.int64)
        at = np.minimum(self._keys.searchsorted(keys), self._keys.size - 1)
        return np.where(self._keys[at] == keys, self._numbers[at], 0)

    def have(self, keys: Words) -> npt.NDArray[np.bool_]:
        """Return True for elements that an instruction has computed."""
        return self.numbers(keys) > 0
