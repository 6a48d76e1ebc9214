"""Sequences of groups that may become one group: their works, their search results, and their creation."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from xdsl.dialects.builtin import DenseArrayBase, ModuleOp, i64
from xdsl.ir import SSAValue
from xdsl.rewriter import Rewriter

from compiler.dialect.ops import ControlOperation, GroupOp, OutputOp, TensorOperation
from compiler.lowering.record import AnyWork, SequenceWork
from compiler.passes.base import Context, is_alias, operations, phase_names
from compiler.passes.patterns import SequencePattern
from compiler.passes.patterns.sequences import ANY
from compiler.passes.work import stages_of_group, target_of, together, unaliased, work_of
from compiler.search import SearchResult, Template, Trial, signature, template_key
from compiler.search.cost import Shares, added
from compiler.search.plan import OTHER, Plan, PlanMisfit, PlannedSequence

from .borders import Borders
from .dependences import RunOrder, in_order
from .group_cost import stack_decisions, with_details, with_ends, write_decision
from .grouping import Members, dissolve, group
from .views import state_edges, users_of


@dataclass(frozen=True, eq=False)
class Joint:
    """Groups that may become one, in order: their work as one, and its search result."""

    groups: Sequence[GroupOp]
    work: SequenceWork
    result: SearchResult


class GroupNames:
    """The groups of a module by the names that they have in plans.

    A group has the name of its phase before there are sequences, a sequence that of its first group.
    """

    def __init__(self, module: ModuleOp) -> None:
        groups = [operation for operation in operations(module) if isinstance(operation, GroupOp)]
        self.groups = dict(zip(phase_names(groups), groups, strict=True))
        self._names = {each: name for name, each in self.groups.items()}

    def joined(self, groups: Sequence[GroupOp], made: GroupOp) -> list[str]:
        """Give a sequence its name; returns the names of its groups, which are no longer valid."""
        names = [self._names.pop(each) for each in groups]
        for name in names:
            del self.groups[name]
        self.groups[names[0]], self._names[made] = made, names[0]
        return names


class Sequences:
    """The sequences that a pattern allows.

    ``decided`` has the search's decisions for groups; new groups get their decisions there.
    """

    def __init__(
        self, context: Context, pattern: SequencePattern, decided: dict[GroupOp, Trial], names: GroupNames
    ) -> None:
        self.context, self.pattern, self.decided, self.names = context, pattern, decided, names
        self.stages: dict[GroupOp, list[AnyWork]] = {}
        """The works of groups; a group made here has the works of the groups that it replaces."""
        self.by_key: dict[str, SearchResult | None] = {}
        self.tried: list[Template] = []
        self._symbols: dict[SSAValue, str] = {}

    def takes(self, operation: GroupOp) -> bool:
        """True if the pattern and the lowering of sequences allow a group."""
        operators = self.pattern.operators
        allowed = ANY in operators or operation.members[0].op in operators
        return allowed and all(map(self.pattern.kind.takes, self.stages_of(operation)))

    def stages_of(self, operation: GroupOp) -> list[AnyWork]:
        """The works that a group has in a sequence."""
        if operation not in self.stages:
            self.stages[operation] = [work_of(self.context, operation, self.symbol)]
        return self.stages[operation]

    def symbol(self, value: SSAValue) -> str:
        """A name in place of the symbol of a value in DDR, in whatever shape."""
        return self._symbols.setdefault(unaliased(value), f"v.{len(self._symbols)}")

    def work(self, groups: Sequence[GroupOp]) -> SequenceWork:
        """The work of groups as one."""
        works = [work for each in groups for work in self.stages_of(each)]
        return together(self.pattern.kind, works, {self.symbol(value) for value in results_of(groups)})

    def searched(self, groups: Sequence[GroupOp], borders: Borders, more: bool = True) -> Joint | None:
        """The search result for these groups as one; None if they cannot be one, or if no division fits.

        Without ``more`` nothing is searched: only known results of equal groups count.
        """
        work, target = self.work(groups), target_of(self.context)
        template = Template(template_key(signature(work, target)), work, target)
        if more and template.key not in self.by_key:
            self.by_key[template.key] = self._searched(template, groups)
        result = self.by_key.get(template.key)
        if result is None or result.best.cycles is None:
            return None
        if borders.is_close(groups, result.best):
            result = self.by_key[template.key] = with_ends(self.context, template, result)
        return Joint(groups, work, result)

    def _searched(self, template: Template, groups: Sequence[GroupOp]) -> SearchResult | None:
        assert isinstance(template.work, SequenceWork)
        try:
            self.pattern.kind.check(template.work)
        except ValueError:
            return None
        result = stack_decisions(self.context, self.kinds_of(groups))(template)
        if result is not None:
            self.tried.append(template)
        return result

    def kinds_of(self, groups: Sequence[GroupOp]) -> Shares:
        """The shares of the groups in the kinds of commands of the program."""
        return added(self.decided[each].kinds for each in groups if each in self.decided)

    def detailed(self, joint: Joint) -> Joint:
        """A joint that will be made, with the best details of its division."""
        template = Template(joint.result.key, joint.work, target_of(self.context))
        found = with_details(self.context, template, joint.result, self.kinds_of(joint.groups))
        self.by_key[template.key] = found
        return Joint(joint.groups, joint.work, found)

    def results(self) -> Iterator[tuple[Template, SearchResult]]:
        """The sequences that were searched."""
        for template in self.tried:
            result = self.by_key[template.key]
            assert result is not None
            yield template, result

    def make(self, joint: Joint, grown: bool = False) -> GroupOp:
        """Replace groups by one group with the decisions about it, at the place of the last of them."""
        template = Template(joint.result.key, joint.work, target_of(self.context))
        best = with_ends(self.context, template, joint.result).best  # later joints are compared with it
        made = self.join(joint.groups, grown)
        write_decision(made, best)
        self.decided[made] = best
        return made

    def join(self, groups: Sequence[GroupOp], grown: bool = False) -> GroupOp:
        """Replace groups by one group, at the place of the last of them.

        ``grown``: the plan says that other groups may need intermediate values.
        """
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
        if self.pattern.kind.begins is None:
            made.attributes["stages"] = DenseArrayBase.from_list(i64, counts)
        self.stages[made] = works
        for outer, value in zip(made.results, made.made, strict=True):
            self._symbols[outer] = names[value]
        planned = PlannedSequence(self.pattern.kind.table, self.names.joined(groups, made), grown)
        self.context.sequences.append(planned)
        return made


def can_grow(sequences: Sequences, group: GroupOp) -> bool:
    """True if a group can be a part of another whose results others need."""
    return not makes_state(group) and sequences.takes(group)


def makes_state(group: GroupOp) -> bool:
    """True if a group computes the new value of a state."""
    users = (user for value in group.results for user in users_of(value))
    return any(isinstance(user, OutputOp) and user.state is not None for user in users)


def move_to_first(found: Sequence[TensorOperation], groups: Sequence[GroupOp], made: GroupOp) -> None:
    """Move the joined groups to the place of the first of them, or after the operations that they need.

    ``found`` are the operations before. The groups must have none between them.
    """
    block = made.parent_block()
    assert block is not None
    at_place = [made if each is groups[0] else each for each in found if each not in groups[1:]]
    ordered = in_order([each for each in at_place if each.parent_block() is block], defaultdict(set))
    assert ordered is not None
    for operation in ordered:
        block.detach_op(operation)
    block.add_ops(ordered)


def results_of(groups: Collection[GroupOp]) -> list[SSAValue]:
    """The values that groups compute and other operations use."""
    inside = set(groups)
    values = (value for each in groups for value in each.results)
    return [value for value in values if any(user not in inside for user in users_of(value))]


def _own_aliases(groups: Sequence[GroupOp]) -> dict[GroupOp, Members]:
    """Copies of the operations between groups that give values another shape, by the first group to use them.

    The groups use the copies. Originals without another user are erased.
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
    """The operations that reshape values of other groups for a group, in order."""
    found: Members = []
    for value in each.operands:
        way: Members = []
        while isinstance(value.owner, TensorOperation) and is_alias(value.owner):
            way.insert(0, value.owner)
            value = value.owner.operands[0]
        if value.owner in groups:
            found += way
    return list(dict.fromkeys(found))


def make_as_planned(module: ModuleOp, kinds: Sequence[Sequences], plan: Plan) -> None:
    """Make the sequences of a plan, one after another; PlanMisfit for one that is not possible."""
    by_kind = {each.pattern.kind.table: each for each in kinds}
    for number, wanted in enumerate(plan.sequences, 1):
        try:
            if wanted.kind not in by_kind:
                allowed = ", ".join(by_kind) or "none"
                raise ValueError(f"kinds that --patterns and --residency allow: {allowed}")
            _make_as_planned(module, by_kind[wanted.kind], wanted)
        except ValueError as problem:
            what = f"the plan's sequence {number} ({wanted.kind}: {', '.join(wanted.groups)})"
            raise PlanMisfit([f"{what} cannot be made: {problem}"]) from None


def _make_as_planned(module: ModuleOp, sequences: Sequences, wanted: PlannedSequence) -> None:
    """Make a sequence; ValueError if it is not possible."""
    known = sequences.names.groups
    for name in wanted.groups:
        if name not in known:
            raise ValueError(f"there is no group '{name}': {OTHER}")
        if not sequences.takes(known[name]) or (wanted.grown and not can_grow(sequences, known[name])):
            raise ValueError(f"group '{name}' cannot be a part of it: {OTHER}")
    groups, found = [known[name] for name in wanted.groups], list(operations(module))
    _check_places(sequences, groups, wanted.grown, found)
    sequences.pattern.kind.check(sequences.work(groups))
    kinds = sequences.kinds_of(groups)
    made = sequences.join(groups, wanted.grown)
    sequences.decided[made] = Trial(None, None, kinds=kinds)
    if len(made.results) > 1:
        move_to_first(found, groups, made)


def _check_places(
    sequences: Sequences, groups: Sequence[GroupOp], grown: bool, found: Sequence[TensorOperation]
) -> None:
    """ValueError unless groups can be one at their places."""
    order = RunOrder(found, state_edges(found)) if grown else RunOrder(found, defaultdict(set))
    places = [order.place[each] for each in groups]
    if len(places) < 2 or any(one >= other for one, other in pairwise(places)):
        raise ValueError("expected two groups or more, in the order of the program, each once")
    between = order.between(groups)
    for each in found:
        if each in between and isinstance(each, GroupOp | ControlOperation):
            raise ValueError(f"node '{each.node.data}' is between its groups and does not belong to it")
    if grown and not sequences.pattern.kind.grows:
        raise ValueError("sequences of this kind do not grow")
    if grown or sequences.pattern.kind.several:
        return
    needed = results_of(groups)
    for each in groups[:-1]:
        if any(value in needed for value in each.results):
            raise ValueError(f"others need what node '{each.node.data}' computes; expected grown")
