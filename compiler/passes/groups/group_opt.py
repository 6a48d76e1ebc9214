"""Pass ``group_opt``: groups that the patterns left apart become one where no value has to leave the SPM.

Pointwise operations join the group of the anchor whose result only they use; what is left of them joins each
other. A value with users outside stays the result of its group, so a group has one result, and it stands
where its last member stood: no two groups can wait for each other.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp, StringAttr

from compiler.dialect.ops import CastOp, GroupOp, TensorOperation
from compiler.dialect.types import format_of
from compiler.lowering import LOWERINGS
from compiler.passes.base import Context, operations
from tx8isa.numbers.formats import Format

from .grouping import Fusion, Members, dissolve, group, is_anchor, sole_user

CHAIN = "chain"
"""Tag of a group of pointwise operations that no pattern made."""
FUSED = "fused"
"""Tag of an anchor with steps that no pattern put there."""


class GroupOptPass:
    """Merges groups."""

    name = "group_opt"

    def run(self, context: Context, module: ModuleOp) -> None:
        if context.patterns is None:
            return
        merger = _Merger(Fusion(context))
        for operation in operations(module):
            if isinstance(operation, GroupOp):
                tag = operation.tag.data if isinstance(operation.tag, StringAttr) else CHAIN
                merger.add(_Part(dissolve(operation), tag))
        for part in merger.merged():
            group(part.members, part.tag)


@dataclass(eq=False)
class _Part:
    """The members of a group to be; none when another has taken them."""

    members: Members
    tag: str


def _rounds(operation: TensorOperation) -> bool:
    """Whether an anchor can give FP32 in place of a shorter format."""
    fmt = format_of(operation.results[0].type)
    return is_anchor(operation) and LOWERINGS[operation.op].rounds and fmt in (Format.FP16, Format.BF16)


class _Merger:
    def __init__(self, fusion: Fusion) -> None:
        self.fusion = fusion
        self.parts: list[_Part] = []
        self.of: dict[TensorOperation, _Part] = {}

    def add(self, part: _Part) -> None:
        self.parts.append(part)
        self.of.update(dict.fromkeys(part.members, part))

    def merged(self) -> list[_Part]:
        """The parts after merging, later anchors and chains first."""
        for part in reversed(self.parts):
            if part.members and is_anchor(part.members[0]):
                self._extend(part)
        for part in reversed(self.parts):
            if part.members and not is_anchor(part.members[0]):
                self._absorb(part)
        for part in self.parts:
            if part.members and _rounds(part.members[0]):
                self._take_cast(part)
        return [part for part in self.parts if part.members]

    def _extend(self, part: _Part) -> None:
        """Let pointwise operations follow an anchor as long as they can."""
        while (following := self._steps_behind(part)) is not None:
            self._join(part, [*part.members, *following.members], following)
            part.tag = FUSED

    def _steps_behind(self, part: _Part) -> _Part | None:
        """The part that uses this one's result alone, if its members can be steps, one after another."""
        running = part.members[-1].results[0]
        user = sole_user(running)
        following = None if user is None else self.of.get(user)
        if following is None or is_anchor(following.members[0]):
            return None
        for member in following.members:
            if sole_user(running) is not member or not self.fusion.is_step(member, running):
                return None
            running = member.results[0]
        return following

    def _absorb(self, part: _Part) -> None:
        """Let a pointwise part take in those that work for it alone."""
        while (source := self._source(part)) is not None:
            self._join(part, [*source.members, *part.members], source)
            part.tag = CHAIN

    def _take_cast(self, part: _Part) -> None:
        """Let a lowering that can do it write an FP32 result itself."""
        cast = sole_user(part.members[-1].results[0])
        if isinstance(cast, CastOp) and format_of(cast.results[0].type) is Format.FP32:
            following = self.of[cast]
            if len(following.members) == 1:
                self._join(part, [*part.members, cast], following)

    def _source(self, part: _Part) -> _Part | None:
        for value in dict.fromkeys(value for member in part.members for value in member.operands):
            source = self.of.get(value.owner) if isinstance(value.owner, TensorOperation) else None
            if source is None or source is part or value is not source.members[-1].results[0]:
                continue
            inside = all(use.operation in part.members for use in value.uses)
            if inside and self.fusion.joins(source.members, part.members):
                return source
        return None

    def _join(self, part: _Part, members: Members, other: _Part) -> None:
        """Let a part have these members, among them all of another part."""
        part.members, other.members = members, []
        self.of.update(dict.fromkeys(members, part))
