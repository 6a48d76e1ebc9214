"""The lengths of growing states, which a session knows and passes to each step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from asm.image import Buffer, Shapes
from emulator.memory.buffers import Array, check_array
from emulator.memory.shapes import SizeError, check_length, in_room


class StateLengths:
    """The length of every dimension along which states grow; ``buffers`` are the states by name.

    ``now`` are the lengths at the beginning of the next step. ``first`` are the lengths after a reset: 0
    unless the session began with others. States that grow along one dimension have equal lengths.
    """

    def __init__(self, shapes: Shapes | None, buffers: Mapping[str, Buffer]) -> None:
        self._shapes, self._buffers = shapes, buffers
        self._axes: dict[str, int] = {}
        self._dimensions: dict[str, str] = {}
        self.most: dict[str, int] = {}
        """The largest length after a step, by dimension."""
        for name, buffer in buffers.items():
            key = buffer.kind, buffer.name
            if shapes is not None and key in shapes.room:
                axis = self._axes[name] = shapes.room[key]
                dimension = self._dimensions[name] = shapes.extents[key][axis]
                self.most[dimension] = min(buffer.shape[axis], self.most.get(dimension, buffer.shape[axis]))
        self.now: dict[str, int] = dict.fromkeys(self.most, 0)
        self.first = self.now

    def check(self) -> None:
        """Raise SizeError when no step can begin with the present lengths."""
        for name, dimension in self._dimensions.items():
            assert self._shapes is not None
            check_length(self._shapes, name, dimension, self.now[dimension])

    def of(self, arrays: Mapping[str, Array]) -> dict[str, int]:
        """Return the lengths after states are given the values of arrays.

        SizeError for a length out of range, and unless states that grow together have the same.
        """
        found: dict[str, tuple[int, str]] = {}
        for name, dimension in self._dimensions.items():
            axis, length = self._axes[name], self.now[dimension]
            if name in arrays:
                shape = np.shape(arrays[name])
                length = shape[axis] if axis < len(shape) else length
                assert self._shapes is not None
                check_length(self._shapes, name, dimension, length)
            before, other = found.setdefault(dimension, (length, name))
            if before != length:
                both = f"in state '{other}' and {length} in state '{name}'"
                raise SizeError(f"{dimension} is {before} {both}; set them together, with one length")
        return {dimension: length for dimension, (length, _) in found.items()}

    def whole(self, name: str, array: Array) -> Array:
        """Return an array padded to a state's room; InputError when it does not fit."""
        if name not in self._axes:
            return array
        buffer, axis, array = self._buffers[name], self._axes[name], np.asarray(array)
        fitting = list(buffer.shape)
        fitting[axis] = array.shape[axis] if axis < array.ndim else fitting[axis]
        check_array(replace(buffer, shape=tuple(fitting)), array)
        return in_room(buffer, array)

    def valid(self, name: str, array: Array) -> Array:
        """Return the valid part of a state's room."""
        if name not in self._axes:
            return array
        ends = list(array.shape)
        ends[self._axes[name]] = self.now[self._dimensions[name]]
        return np.ascontiguousarray(array[tuple(map(slice, ends))])

    def after(self, outputs: Mapping[str, Buffer]) -> dict[str, int]:
        """Return the lengths after a step, from the states as its outputs."""
        return {
            dimension: outputs[name].shape[self._axes[name]] for name, dimension in self._dimensions.items()
        }
