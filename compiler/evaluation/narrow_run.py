"""Runs of a graph on the host with values between nodes rounded to a compute format.

They show the error of a format before anything is compiled. They also show the values that it cannot hold:
finite in binary32, but infinite in the format. Such a value stays in binary32, and so do the nodes that
compute and read it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

import numpy as np

from compiler.graph import FLOATS, Array, Graph, Node
from compiler.operators import OPERATORS
from compiler.operators.expansion.builder import widened
from tx8isa.numbers.formats import Format, largest_number
from tx8isa.numbers.rounding import rounded

from .host_run import HostRun, KeptGrids
from .storage import within_range


class NarrowRun(HostRun):
    """Runs one graph in a format, any number of times.

    ``precise``: the nodes, by name, that compute in binary32; runs add those around values that the format
    cannot hold. ``held``: these values, each with the largest magnitude seen.
    """

    def __init__(
        self, graph: Graph, fmt: Format, precise: Collection[str] = (), kept: KeptGrids | None = None
    ) -> None:
        self._narrows = False  # constants that are computed when compiling are not rounded before
        super().__init__(graph, kept)
        self.fmt, self.precise = fmt, set(precise)
        self.held: dict[str, float] = {}
        self._limit = largest_number(fmt)
        self._narrow: dict[str, Array] = {}
        self._narrows = True

    def run(
        self,
        inputs: Mapping[str, Array],
        known: Mapping[str, Array] | None = None,
        seen: Callable[[str, Array], None] | None = None,
    ) -> dict[str, Array]:
        """As :meth:`HostRun.run`."""
        for name, array in inputs.items():
            if self.graph.tensors[name].is_float:
                self._look(name, array)
        return super().run(inputs, known, seen)

    def _computed(self, node: Node, values: Mapping[str, Array]) -> dict[str, Array]:
        if self._narrows and not self.held.keys().isdisjoint(node.inputs):
            self.precise.add(node.name)
        return super()._computed(node, values)

    def _operand(self, node: Node, name: str, values: Mapping[str, Array]) -> Array:
        array = super()._operand(node, name, values)
        if not self._rounds(node) or array.dtype.kind != "f":
            return array
        if name in values:
            return self._in_format(array)
        if name not in self._narrow:
            self._narrow[name] = self._in_format(within_range(array, self.fmt)).astype(np.float32)
        return widened(self._narrow[name])

    def _constant(self, node: Node, name: str) -> Array:
        return self._narrow[name] if self._rounds(node) else super()._constant(node, name)

    def _stored(self, node: Node, name: str, result: Array) -> Array:
        array = super()._stored(node, name, result)
        if not self._narrows or array.dtype.name not in FLOATS:
            return array
        if self._look(name, array):
            self.precise.add(node.name)
        return self._in_format(array).astype(np.float32) if self._rounds(node) else array

    def _look(self, name: str, array: Array) -> bool:
        """True if a value has finite numbers that the format does not reach, now or in an earlier run."""
        size = max(float(array.max(initial=0.0)), -float(array.min(initial=0.0)))
        if not np.isfinite(size):
            size = float(np.abs(array[np.isfinite(array)]).max(initial=0.0))
        if size > self._limit and not np.isfinite(self._in_format(np.array(size))):
            self.held[name] = max(size, self.held.get(name, 0.0))
        return name in self.held

    def _rounds(self, node: Node) -> bool:
        return self._narrows and node.name not in self.precise and not OPERATORS[node.op].quantised

    def _in_format(self, array: Array) -> Array:
        return widened(rounded(array, self.fmt))
