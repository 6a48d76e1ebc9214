"""Homes: where a value lives between the operations that make and use it.

A value without a home is in DDR. Between the members of a group a value can be in the scratchpads,
distributed over a mesh of tiles, whose axes have the names and extents of the group's cut.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from xdsl.ir import Data
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer

WHOLE = "whole"
"""Used in place of a mesh axis: every tile has the whole axis."""


@dataclass(frozen=True)
class Home:
    """The distribution of a value over the scratchpads.

    ``axes``: for each axis of the value, the mesh axis along which it is sharded, in contiguous shards, or
    ``whole``. Neighbouring axes with the same mesh axis are sharded as one. Tiles that differ in no named
    mesh axis have the same bytes. ``above`` and ``below``: the halo, positions before and after a tile's
    shard of the last sharded axis.
    """

    axes: tuple[str, ...]
    above: int = 0
    below: int = 0

    @property
    def mesh_axes(self) -> tuple[str, ...]:
        """The mesh axes along which the value is sharded, each once."""
        return tuple(dict.fromkeys(axis for axis in self.axes if axis != WHOLE))

    def gathered(self, mesh_axis: str) -> Home:
        """Return the home after an all-gather along a mesh axis."""
        return replace(self, axes=tuple(WHOLE if axis == mesh_axis else axis for axis in self.axes))

    def problem(self, rank: int) -> str | None:
        """Return the mistake in this home for a value with ``rank`` axes; None if it is valid."""
        if len(self.axes) != rank:
            return f"a home of {len(self.axes)} axes for a value of {rank}"
        runs = [axis for at, axis in enumerate(self.axes) if at == 0 or self.axes[at - 1] != axis]
        for axis in self.mesh_axes:
            if runs.count(axis) > 1:
                return f"mesh axis '{axis}' shards axes that are not neighbours"
        if (self.above or self.below) and not self.mesh_axes:
            return "a halo without a sharded axis"
        return None


@irdl_attr_definition
class HomeAttr(Data[Home]):
    """A home as an attribute: ``#tx8be.spm<rows, whole>``, ``#tx8be.spm<whole, rows, whole, halo 1 2>``."""

    name = "tx8be.spm"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Home:
        axes: list[str] = []
        above = below = 0
        with parser.in_angle_brackets():
            while True:
                word = parser.parse_identifier(context_msg=": a mesh axis, 'whole' or 'halo'")
                if word == "halo":
                    above, below = (parser.parse_integer(allow_negative=False) for _ in range(2))
                    break
                axes.append(word)
                if parser.parse_optional_punctuation(",") is None:
                    break
        return Home(tuple(axes), above, below)

    def print_parameter(self, printer: Printer) -> None:
        home = self.data
        halo = [f"halo {home.above} {home.below}"] if home.above or home.below else []
        printer.print_string(f"<{', '.join([*home.axes, *halo])}>")
