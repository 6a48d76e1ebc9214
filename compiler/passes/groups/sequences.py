"""Sequences of groups that may become one group: their works, what a search says of them, and how they do."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import DenseArrayBase, i64
from xdsl.ir import SSAValue
from xdsl.rewriter import Rewriter

from compiler.dialect.ops import GroupOp, TensorOperation
from compiler.lowering.record import Work
from compiler.passes.base import Context, is_alias
from compiler.passes.patterns import SequencePattern
from compiler.passes.patterns.sequences import ANY
from compiler.passes.work import stages_of_group, target_of, together, unaliased, work_of
from compiler.search import SearchResult, Template, Trial, signature, template_key

from .borders import Borders
from .group_cost import stack_decisions, with_ends, write_decision
from .grouping import Members, dissolve, group
from .views import users_of


@dataclass(frozen=True, eq=False)
class Joint:
    """Groups that may become one, in order: their work as one, and what a search says of it."""

    groups: Sequence[GroupOp]
    work: Work
    result: SearchResult


class Sequences:
    """The sequences that a pattern allows.

    ``decided`` has what a search decided for groups; groups that are made get their decisions there.
    """

    def __init__(self, context: Context, pattern: SequencePattern, decided: dict[GroupOp, Trial]) -> None:
        self.context, self.pattern, self.decided = context, pattern, decided
        self.stages: dict[GroupOp, list[Work]] = {}
        """The works of groups: of those that were made here, of the groups that they were made of."""
        self.by_key: dict[str, SearchResult | None] = {}
        self.tried: list[Template] = []
        self._names: dict[SSAValue, str] = {}
        self._search = stack_decisions(context)

    def takes(self, operation: GroupOp) -> bool:
        """Whether the pattern and the lowering of sequences allow a group."""
        operators = self.pattern.operators
        allowed = ANY in operators or operation.members[0].op in operators
        return allowed and all(map(self.pattern.kind.takes, self.stages_of(operation)))

    def stages_of(self, operation: GroupOp) -> list[Work]:
        """The works that a group has in a sequence."""
        if operation not in self.stages:
            self.stages[operation] = [work_of(self.context, operation, self.symbol)]
        return self.stages[operation]

    def symbol(self, value: SSAValue) -> str:
        """A name in place of the symbol of a value in DDR, in whatever shape."""
        return self._names.setdefault(unaliased(value), f"v.{len(self._names)}")

    def searched(self, groups: Sequence[GroupOp], borders: Borders, more: bool = True) -> Joint | None:
        """What a search says of these groups; None if they cannot be one, or if that does not fit.

        Without ``more`` it only says what it knows of equal ones.
        """
        works = [work for each in groups for work in self.stages_of(each)]
        work = together(self.pattern.kind, works, {self.symbol(value) for value in results_of(groups)})
        target = target_of(self.context)
        template = Template(template_key(signature(work, target)), work, target)
        if more and template.key not in self.by_key:
            self.by_key[template.key] = self._searched(template)
        result = self.by_key.get(template.key)
        if result is None or result.best.cycles is None:
            return None
        if borders.is_close(groups, result.best):
            result = self.by_key[template.key] = with_ends(self.context, template, result)
        return Joint(groups, work, result)

    def _searched(self, template: Template) -> SearchResult | None:
        try:
            self.pattern.kind.check(template.work)
        except ValueError:
            return None
        result = self._search(template)
        if result is not None:
            self.tried.append(template)
        return result

    def results(self) -> Iterator[tuple[Template, SearchResult]]:
        """The sequences that were searched."""
        for template in self.tried:
            result = self.by_key[template.key]
            assert result is not None
            yield template, result

    def make(self, joint: Joint) -> GroupOp:
        """Replace groups by one group, at the place of the last of them."""
        groups, target = joint.groups, target_of(self.context)
        template = Template(joint.result.key, joint.work, target)
        best = with_ends(self.context, template, joint.result).best  # others are compared with it
        works = [work for each in groups for work in self.stages_of(each)]
        names = {
            value: self.symbol(outer)
            for each in groups
            for outer, value in zip(each.results, each.made, strict=True)
        }
        aliases = _own_aliases(groups)
        members: Members = []
        counts: list[int] = []
        for each in groups:
            first, *others = (len(stage) for stage in stages_of_group(each))
            counts += [len(aliases[each]) + first, *others]
            members += [*aliases[each], *dissolve(each)]
        made = group(members, self.pattern.tag)
        if self.pattern.kind.operators == (ANY,):
            made.attributes["stages"] = DenseArrayBase.from_list(i64, counts)
        write_decision(made, best)
        self.decided[made], self.stages[made] = best, works
        for outer, value in zip(made.results, made.made, strict=True):
            self._names[outer] = names[value]
        return made


def results_of(groups: Collection[GroupOp]) -> list[SSAValue]:
    """What groups compute that is used outside of them."""
    inside = set(groups)
    values = (value for each in groups for value in each.results)
    return [value for value in values if any(user not in inside for user in users_of(value))]


def _own_aliases(groups: Sequence[GroupOp]) -> dict[GroupOp, Members]:
    """Copies of the operations between groups that give values another shape, by the first group to use them.

    The groups use the copies. What they were made of is erased if nothing else uses it.
    """
    found: dict[GroupOp, Members] = {each: [] for each in groups}
    copies: dict[SSAValue, SSAValue] = {}
    originals: Members = []
    for each in groups:
        for original in _aliases(each, groups):
            if original.results[0] not in copies:
                copy = original.clone(copies)
                block = each.parent_block()
                assert block is not None
                block.insert_op_before(copy, each)
                found[each].append(copy)
                originals.append(original)
        each.operands = [copies.get(value, value) for value in each.operands]
    for original in reversed(originals):
        if not original.results[0].uses:
            Rewriter.erase_op(original)
    return found


def _aliases(each: GroupOp, groups: Sequence[GroupOp]) -> Members:
    """The operations that give a group values of others in another shape, in order."""
    found: Members = []
    for value in each.operands:
        way: Members = []
        while isinstance(value.owner, TensorOperation) and is_alias(value.owner):
            way.insert(0, value.owner)
            value = value.owner.operands[0]
        if value.owner in groups:
            found += way
    return list(dict.fromkeys(found))
