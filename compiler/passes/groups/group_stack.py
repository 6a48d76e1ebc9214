"""Pass ``group_stack``: sequences of groups become one group where that saves time.

There are four kinds of sequences (``patterns.sequences``): stacks of convolutions and pools; products,
normalizations and attention that are sharded over a mesh of tiles; convolutions with a global pool; and
sliced sequences of any operators, where each tile computes slices.

Intermediate values of a sequence stay in the scratchpad. From every group backwards, the groups whose results
only the stack uses are added one after another; each sequence of groups on the way is a possible stack. Its
estimate is compared with the separate ones of its groups, from ``group_cost``, plus the borders between them
(``borders.py``). The stacks that together save the most cycles are made. At last groups grow into sequences
that store several values (``growth.py``), where that saves time. With a plan, the plan names the sequences
and has the cuts of all groups.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from xdsl.dialects.builtin import ModuleOp

from compiler.dialect.ops import GroupOp, TensorOperation
from compiler.passes.base import Context, operations
from compiler.passes.patterns import SequencePattern
from compiler.passes.work import unaliased
from compiler.search import SearchResult, Template, Trial

from .borders import Borders
from .boundaries import Promise, StackSpan, near, some
from .group_cost import decide_as_planned, planned_kinds, with_ends
from .group_mapping import GroupMappingPass
from .growth import grown
from .layer_cost import LEAST_BARRIERS
from .sequences import GroupNames, Joint, Sequences, make_as_planned
from .views import users_of

_SUM = "Int8Sum"
_MOST_STATES = 64
"""Number of sets of taken groups that the selection of stacks follows at a time."""


class GroupStackPass:
    """Merges groups into stacks; without a plan, only with a search and values that may stay on chip."""

    name = "group_stack"

    def run(self, context: Context, module: ModuleOp) -> None:
        patterns = context.patterns.sequences if context.patterns is not None and context.residency else ()
        if context.plan is not None:
            parts = planned_kinds(context, module) if context.plan.searched else {}
            kinds = _kinds(context, module, patterns, parts)
            make_as_planned(module, kinds, context.plan)
            GroupMappingPass().run(context, module)
            decide_as_planned(context, module, context.plan, parts)
        elif patterns and context.effort.total:
            self._search(context, module, _kinds(context, module, patterns, _decided(context, module)))

    def _search(self, context: Context, module: ModuleOp, kinds: Sequence[Sequences]) -> None:
        """Make the sequences that save the most cycles."""
        made = _Stacker(context, kinds, list(operations(module))).best_stacks()
        for stack in made:
            stack.sequences.make(stack.joint)
        results = [stack.joint.result for stack in made]
        for sequences in kinds:
            if sequences.pattern.kind.grows:
                results += grown(context, module, sequences)
        keys = {result.key for result in results}
        known = list(zip(context.templates, context.results, strict=False)) + [
            (template, with_ends(context, template, result) if template.key in keys else result)
            for sequences in kinds
            for template, result in sequences.results()
        ]
        GroupMappingPass().run(context, module)
        if context.results:
            _assign_results(context, known)


def _kinds(
    context: Context, module: ModuleOp, patterns: Iterable[SequencePattern], decided: dict[GroupOp, Trial]
) -> list[Sequences]:
    """The sequences that patterns allow, with the names of the groups and the decisions about these."""
    names = GroupNames(module)
    return [Sequences(context, pattern, decided, names) for pattern in patterns]


def _decided(context: Context, module: ModuleOp) -> dict[GroupOp, Trial]:
    """The decisions of the search, if there was one, by group."""
    return {
        each: context.results[each.template.value.data].best
        for each in operations(module)
        if context.results and isinstance(each, GroupOp) and each.template is not None
    }


def _assign_results(context: Context, known: Sequence[tuple[Template, SearchResult]]) -> None:
    """Divide all search results into those of the present templates, in their order, and the others."""
    by_key = {template.key: result for template, result in known}
    context.results = [by_key.pop(template.key) for template in context.templates]
    context.other_results = [(template, result) for template, result in known if template.key in by_key]


@dataclass(frozen=True)
class _Stack:
    """A possible stack of a kind: its span, and the cycles that it saves."""

    sequences: Sequences
    joint: Joint
    span: StackSpan
    gain: int

    @property
    def groups(self) -> Sequence[GroupOp]:
        """The groups of the stack in order."""
        return self.joint.groups

    @property
    def cycles(self) -> int:
        """The estimated cycles of the stack."""
        return self.joint.result.best.cycles or 0


@dataclass(frozen=True)
class _Selection:
    """Stacks that have no group in common, the last one first, and the cycles that they save together."""

    gain: int
    stacks: tuple[_Stack, ...]

    def with_stack(self, stack: _Stack) -> _Selection:
        return _Selection(self.gain + stack.gain, (*self.stacks, stack))


_States = dict[frozenset[GroupOp], _Selection]
"""The best selection for each set of groups that stacks have taken and that have not been visited yet."""


def _keep_best(states: _States, taken: frozenset[GroupOp], selection: _Selection) -> None:
    """Enter a selection if it saves more than the known one for the same set of taken groups."""
    if taken not in states or states[taken].gain < selection.gain:
        states[taken] = selection


def _counted(groups: Sequence[GroupOp]) -> int:
    """Number of groups of a sequence, not counting sums of bytes, whose float counterparts are steps."""
    return sum(each.members[0].op != _SUM for each in groups)


class _Candidates:
    """The possible stacks of one kind; if there are many, only some are tried."""

    def __init__(
        self, sequences: Sequences, borders: Borders, position: Mapping[TensorOperation, int]
    ) -> None:
        self.sequences, self.borders, self.position = sequences, borders, position
        self.pattern, self.effort = sequences.pattern, sequences.context.effort
        self.number = {operation: at for at, operation in enumerate(borders.groups)}
        self.known: dict[StackSpan, _Stack | None] = {}
        self.tried = self._first_tried()

    @cached_property
    def found(self) -> dict[StackSpan, list[GroupOp]]:
        """The sequences of groups that may be stacked, by span."""
        sequences = (groups for last in self.borders.groups for groups in self._sequences(last))
        return {self._span(groups): groups for groups in sequences}

    @cached_property
    def by_end(self) -> dict[GroupOp, list[StackSpan]]:
        """The spans of possible stacks by their last group."""
        ending: dict[GroupOp, list[StackSpan]] = {each: [] for each in self.borders.groups}
        for span, groups in self.found.items():
            ending[groups[-1]].append(span)
        return ending

    def _first_tried(self) -> set[StackSpan]:
        """The spans to try first: all, or some if the effort allows fewer; none of a kind that may grow."""
        if self.pattern.kind.longest:
            return set(self.found)
        if self.pattern.kind.grows:
            return set()
        whole = sum(span.length for span in self.found) <= self.effort.stacked
        return set(self.found) if whole else some(self.found)

    def try_more(self, best: Sequence[_Stack]) -> bool:
        """Select more spans to try, near the best of those tried so far; False if there are none."""
        left = self.found.keys() - self.tried
        if self.pattern.kind.grows:
            promise = Promise(self.borders, [(stack.groups, stack.cycles) for stack in best])
            others = {span for span in left if promise.may_be_less(self.found[span])}
        else:
            others = near(left, [stack.span for stack in best])
        self.tried |= others
        return bool(others)

    @cached_property
    def _ends(self) -> Collection[GroupOp]:
        """The groups with which a stack may end; if only longest ones count, none inside one that pays."""
        if not self.pattern.kind.longest:
            return self.borders.groups
        ends, inside = set[GroupOp](), set[GroupOp]()
        for last in reversed(self.borders.groups):
            if last not in inside:
                ends.add(last)
                inside.update(group for stack in self._priced(last) for group in stack.groups)
        return ends

    def ending(self, last: GroupOp) -> Iterator[_Stack]:
        """The stacks to try that end with ``last`` and save cycles."""
        if last in self._ends:
            yield from self._priced(last)

    def _priced(self, last: GroupOp) -> Iterator[_Stack]:
        for span in self.by_end[last]:
            if span in self.tried:
                if span not in self.known:
                    self.known[span] = self._stack(span)
                stack = self.known[span]
                if stack is not None:
                    yield stack

    def _stack(self, span: StackSpan) -> _Stack | None:
        """The stack of a span; None if it is not possible, or saves nothing."""
        groups = self.found[span]
        joint = self.sequences.searched(groups, self.borders)
        if joint is None:
            return None
        gain = self.borders.gain(groups, joint.result.best)
        least = LEAST_BARRIERS * self.borders.barrier.middle if self.pattern.kind.grows else 0
        return _Stack(self.sequences, joint, span, gain) if gain > least else None

    def _span(self, groups: Sequence[GroupOp]) -> StackSpan:
        return StackSpan(self.number[groups[0]], self.number[groups[-1]], len(groups))

    def _sequences(self, last: GroupOp) -> Iterator[list[GroupOp]]:
        """Sequences of groups that end with ``last``: of two groups, of three, and so on; or the longest."""
        groups = [last]
        while self.sequences.takes(groups[0]) and _counted(groups) < self.pattern.most:
            before = self._before(groups)
            if before is None:
                break
            groups = [before, *groups]
            if not self.pattern.kind.longest:
                yield groups
        if self.pattern.kind.longest and len(groups) > 1:
            yield groups

    def _before(self, groups: Sequence[GroupOp]) -> GroupOp | None:
        """The last group that can be a stage and whose users are all among these; None if there is none."""
        owners = {unaliased(value).owner for each in groups for value in each.operands} - set(groups)
        alone = [
            owner
            for owner in owners
            if isinstance(owner, GroupOp)
            and all(user in groups for value in owner.results for user in users_of(value))
        ]
        return max(filter(self.sequences.takes, alone), key=self.position.__getitem__, default=None)


class _Stacker:
    def __init__(
        self, context: Context, kinds: Sequence[Sequences], found: Sequence[TensorOperation]
    ) -> None:
        self.groups = [operation for operation in found if isinstance(operation, GroupOp)]
        position = {operation: at for at, operation in enumerate(found)}
        borders = Borders(context, self.groups, kinds[0].decided)
        self.kinds = [_Candidates(sequences, borders, position) for sequences in kinds]

    def best_stacks(self) -> list[_Stack]:
        """The disjoint stacks, of any kinds, that together save the most cycles.

        If there are more than the effort allows, some are tried, then those near the best ones until none is
        left.
        """
        while True:
            best = self._best_of_tried()
            more = [kind for kind in self.kinds if kind.try_more(best)]
            if not more:
                return best

    def _best_of_tried(self) -> list[_Stack]:
        """The best stacks among those that are tried.

        Dynamic programming over groups, from the last to the first. A state is the set of earlier groups that
        are already in stacks, with the best selection that leads to it.
        """
        states: _States = {frozenset(): _Selection(0, ())}
        for last in reversed(self.groups):
            stacks = [stack for kind in self.kinds for stack in kind.ending(last)]
            following: _States = {}
            for taken, selection in states.items():
                _keep_best(following, taken - {last}, selection)
                if last in taken:
                    continue
                for stack in stacks:
                    others = frozenset(stack.groups) - {last}
                    if not others & taken:
                        _keep_best(following, taken | others, selection.with_stack(stack))
            best = sorted(following.items(), key=lambda state: -state[1].gain)
            states = dict(best[:_MOST_STATES])
        return list(states[frozenset()].stacks)
