"""Pass ``group_opt``: groups that no pattern has joined are merged where no value between them needs DDR.

Pointwise operations join the group of the anchor whose result only they use; the remaining ones form chains.
A value with users outside of the group must be its result. So these groups have one result and are placed at
their last members; no two groups can wait for each other.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import SSAValue

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
    """Merges groups.

    Does nothing if there are no patterns, because then every operation has its own phase.
    """

    name = "group_opt"

    def run(self, context: Context, module: ModuleOp) -> None:
        if context.patterns is None:
            return
        merger = _Merger(Fusion(context))
        for operation in operations(module):
            if isinstance(operation, GroupOp):
                tag = operation.tag.data if isinstance(operation.tag, StringAttr) else CHAIN
                merger.add(_Draft(dissolve(operation), tag))
        for draft in merger.merged():
            group(draft.members, draft.tag)


@dataclass(eq=False)
class _Draft:
    """The members of a future group; none after another draft has taken them."""

    members: Members
    tag: str


def _rounds(operation: TensorOperation) -> bool:
    """True if an operation is an anchor that could give FP32 in place of its shorter format."""
    fmt = format_of(operation.results[0].type)
    return is_anchor(operation) and LOWERINGS[operation.op].takes_fp32 and fmt in (Format.FP16, Format.BF16)


class _Merger:
    def __init__(self, fusion: Fusion) -> None:
        self.fusion = fusion
        self.drafts: list[_Draft] = []
        self.of: dict[TensorOperation, _Draft] = {}

    def add(self, draft: _Draft) -> None:
        self.drafts.append(draft)
        self.of.update(dict.fromkeys(draft.members, draft))

    def merged(self) -> list[_Draft]:
        """The drafts that remain after merging; later anchors and chains are extended first."""
        for draft in reversed(self.drafts):
            if draft.members and is_anchor(draft.members[0]):
                self._extend(draft)
        for draft in self.drafts:
            if draft.members and _rounds(draft.members[0]) and self._is_quantised(draft):
                self._take_cast(draft)
        for draft in reversed(self.drafts):
            if draft.members and not is_anchor(draft.members[0]):
                self._absorb(draft)
        for draft in self.drafts:
            if draft.members and _rounds(draft.members[0]):
                self._take_cast(draft)
        return [draft for draft in self.drafts if draft.members]

    def _extend(self, draft: _Draft) -> None:
        """Append pointwise operations to an anchor as long as they can be steps."""
        while (following := self._steps_after(draft)) is not None:
            self._join(draft, [*draft.members, *following.members], following)
            draft.tag = FUSED

    def _steps_after(self, draft: _Draft) -> _Draft | None:
        """The only user of a draft's result, if all its members can be steps, one after another."""
        running = draft.members[-1].results[0]
        user = sole_user(running)
        following = None if user is None else self.of.get(user)
        if following is None or is_anchor(following.members[0]):
            return None
        for member in following.members:
            if sole_user(running) is not member or not self.fusion.is_step(member, running):
                return None
            if draft.members[0].op == "Int8Conv" and self._has_chain_beside(member, running):
                return None
            running = member.results[0]
        return following

    def _has_chain_beside(self, member: TensorOperation, running: SSAValue) -> bool:
        """True if a chain computes another operand only for this operation: then that chain takes it.

        Before the anchor the chain would be a separate phase, which costs more than a sum in the anchor
        saves.
        """
        others = (value.owner for value in member.operands if value is not running)
        return any(
            isinstance(owner, TensorOperation)
            and owner in self.of
            and self.fusion.is_pointwise(owner)
            and sole_user(owner.results[0]) is member
            for owner in others
        )

    def _absorb(self, draft: _Draft) -> None:
        """Merge a chain with those whose results only it uses."""
        while (source := self._source(draft)) is not None:
            self._join(draft, [*source.members, *draft.members], source)
            draft.tag = CHAIN

    def _take_cast(self, draft: _Draft) -> None:
        """Merge the cast to FP32 after an anchor, whose lowering then writes FP32 itself."""
        cast = sole_user(draft.members[-1].results[0])
        if isinstance(cast, CastOp) and format_of(cast.results[0].type) is Format.FP32:
            following = self.of[cast]
            if len(following.members) == 1:
                self._join(draft, [*draft.members, cast], following)

    @staticmethod
    def _is_quantised(draft: _Draft) -> bool:
        """True if a draft's result, cast to FP32, is only quantised: a sequence does that with the anchor."""
        cast = sole_user(draft.members[-1].results[0])
        user = sole_user(cast.results[0]) if isinstance(cast, CastOp) else None
        return user is not None and user.op == "QuantiseInt8"

    def _source(self, draft: _Draft) -> _Draft | None:
        """A draft whose result only this chain uses, and which can be merged with it."""
        for value in dict.fromkeys(value for member in draft.members for value in member.operands):
            source = self.of.get(value.owner) if isinstance(value.owner, TensorOperation) else None
            if source is None or source is draft or value is not source.members[-1].results[0]:
                continue
            inside = all(use.operation in draft.members for use in value.uses)
            if inside and self.fusion.joins(source.members, draft.members):
                return source
        return None

    def _join(self, draft: _Draft, members: Members, other: _Draft) -> None:
        """Give a draft these members, which include all members of another draft."""
        draft.members, other.members = members, []
        self.of.update(dict.fromkeys(members, draft))
