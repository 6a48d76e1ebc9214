"""Pass ``group_stack``: sequences of groups become one group where that saves time.

There are four kinds of sequences (``patterns.sequences``): stacks of convolutions and pools; products,
normalizations and attention that are sharded over a mesh of tiles; convolutions with a global pool; and
sliced sequences of any operators, where each tile computes slices.

Intermediate values of a sequence stay in the scratchpad. From every group backwards, the groups whose results
only the stack uses are added one after another; each sequence of groups on the way is a possible stack. Its
estimate is compared with the separate ones of its groups, from ``group_cost``, plus the borders between them
(``borders.py``). The stacks that together save the most cycles are made. Short ones are searched, others only
if their predicted cycles (``foresight.py``) put them among the best. Finally, groups grow into sequences
that store several values (``growth.py``), where that saves time. With a plan, the plan names the sequences
and has the cuts of all groups.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from compiler.dialect.ops import GroupOp, TensorOperation
from compiler.passes.base import Context, RangedContext, operations
from compiler.passes.patterns import SequencePattern
from compiler.search import SearchResult, Template, Trial

from .borders import Borders
from .dependences import RunOrder
from .foresight import Foresight, Numbers, least_cycles
from .group_cost import decide_as_planned, planned_kinds, with_ends
from .group_mapping import GroupMappingPass
from .growth import grown
from .layer_cost import LEAST_BARRIERS
from .sequences import GroupNames, Joint, Sequences, make_as_planned, makes_state, move_to_first
from .views import state_edges, users_of

_SUM = "Int8Sum"
_SHORT = 2
"""Number of groups of the stacks that are all searched."""
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
        for sequences, joint in made:
            found = list(operations(module))
            one = sequences.make(joint)
            if len(one.results) > 1:
                move_to_first(found, joint.groups, one)
        results = [joint.result for _, joint in made]
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
    """A possible stack of a kind, and the cycles that it saves.

    ``joint`` is None if it was not searched yet; it may save so many cycles then.
    """

    candidates: _Candidates
    numbers: Numbers
    gain: int
    joint: Joint | None = None

    @property
    def groups(self) -> Sequence[GroupOp]:
        """The groups of the stack in order."""
        return self.candidates.found[self.numbers]


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


def _counts(group: GroupOp) -> bool:
    """True if a group counts as a stage; a sum of bytes does not, because its float counterpart is a step."""
    return group.members[0].op != _SUM


class _Candidates:
    """The possible stacks of one kind, by their groups' numbers; only promising ones are searched."""

    def __init__(
        self, sequences: Sequences, borders: Borders, position: Mapping[TensorOperation, int]
    ) -> None:
        self.sequences, self.borders, self.position = sequences, borders, position
        self.pattern, self.effort = sequences.pattern, sequences.context.effort
        self.grows = self.pattern.kind.grows
        self.known: dict[Numbers, _Stack | None] = {}
        self._taken: dict[GroupOp, bool] = {}
        self._used_by: dict[GroupOp, set[Operation]] = {}
        self._least = LEAST_BARRIERS * borders.barrier.middle if self.grows else 0

    @cached_property
    def found(self) -> dict[Numbers, list[GroupOp]]:
        """The sequences of groups that may be stacked."""
        number = {operation: at for at, operation in enumerate(self.borders.groups)}
        sequences = (groups for last in self.borders.groups for groups in self._sequences(last))
        return {tuple(number[each] for each in groups): groups for groups in sequences}

    @cached_property
    def by_end(self) -> dict[GroupOp, list[Numbers]]:
        """The possible stacks by their last group."""
        ending: dict[GroupOp, list[Numbers]] = {each: [] for each in self.borders.groups}
        for numbers, groups in self.found.items():
            ending[groups[-1]].append(numbers)
        return ending

    @cached_property
    def _order(self) -> RunOrder:
        found = sorted(self.position, key=self.position.__getitem__)
        return RunOrder(found, state_edges(found))

    @cached_property
    def _foresight(self) -> Foresight:
        return Foresight(self.borders, self.found)

    @cached_property
    def _bounds(self) -> dict[Numbers, tuple[float, float]]:
        """The cycles of the groups apart, and the least as one."""
        return {
            numbers: (
                self.borders.apart(groups).middle,
                least_cycles(self.borders, groups) if self.grows else 0,
            )
            for numbers, groups in self.found.items()
        }

    def leave_out(self, taken: Collection[GroupOp]) -> None:
        """Leave out the sequences with one of these groups."""
        self.found = {at: groups for at, groups in self.found.items() if not set(groups) & set(taken)}

    def search_first(self) -> None:
        """Search the shortest stacks, which predict the others; with ``predicted`` 0 search all."""
        short = 0 if self.grows or self.pattern.kind.longest else _SHORT
        for numbers in self.found:
            if len(numbers) <= short or not self.effort.predicted:
                self.search(numbers)

    def search(self, numbers: Numbers) -> _Stack | None:
        """The stack of these groups; None if it is not possible, or saves nothing."""
        if numbers in self.known:
            return self.known[numbers]
        self.known[numbers] = None
        groups = self.found[numbers]
        joint = self.sequences.searched(groups, self.borders)
        if joint is not None:
            self._foresight.learn(numbers, self.borders.as_one(groups, joint.result.best).middle)
            gain = self.borders.gain(groups, joint.result.best)
            if gain > self._least:
                self.known[numbers] = _Stack(self, numbers, gain, joint)
        return self.known[numbers]

    @cached_property
    def _ends(self) -> Collection[GroupOp]:
        """Return the groups at which a stack may end; none is inside a longer stack that saves cycles."""
        if not self.pattern.kind.longest:
            return self.borders.groups
        ends, inside = set[GroupOp](), set[GroupOp]()
        for last in reversed(self.borders.groups):
            if last not in inside:
                ends.add(last)
                stacks = [self.search(numbers) for numbers in self.by_end[last]]
                inside.update(group for stack in stacks if stack is not None for group in stack.groups)
        return ends

    def ending(self, last: GroupOp) -> Iterator[_Stack]:
        """The stacks that end with ``last`` and save cycles, or may save some."""
        for numbers in self.by_end[last] if last in self._ends else ():
            stack = self.known[numbers] if numbers in self.known else self._promised(numbers)
            if stack is not None:
                yield stack

    def _promised(self, numbers: Numbers) -> _Stack | None:
        """A stack that was not searched; None if it can hardly save cycles."""
        apart, least = self._bounds[numbers]
        cycles = max(self.effort.predicted * self._foresight.cycles(numbers), least)
        gain = round(apart - cycles)
        return _Stack(self, numbers, gain) if gain > self._least else None

    def _sequences(self, last: GroupOp) -> Iterator[list[GroupOp]]:
        """Sequences of groups that end with ``last``: of two groups, of three, and so on; or the longest.

        With several results there are two longest ones: without and with values that others need.
        """
        for several in (False, True) if self.pattern.kind.several else (False,):
            yield from self._sequences_before(last, several)

    def _sequences_before(self, last: GroupOp, several: bool) -> Iterator[list[GroupOp]]:
        groups, inside, owners = [last], {last}, {*self.borders.owners[last]}
        left = self.pattern.most - _counts(last)
        while left > 0 and self._takes(groups[0]):
            ready = [
                owner for owner in owners if self._is_ready(owner, inside, several) and self._takes(owner)
            ]
            before = max(ready, key=self.position.__getitem__, default=None)
            if before is None:
                break
            groups = [before, *groups]
            inside.add(before)
            owners = {*owners, *self.borders.owners[before]} - inside
            left -= _counts(before)
            if not self.pattern.kind.longest:
                yield groups
        if self.pattern.kind.longest and len(groups) > 1:
            yield groups

    def _is_ready(self, owner: GroupOp, inside: set[GroupOp], several: bool) -> bool:
        """True if a group can be in a sequence with ``inside``: others do not need its results, or with
        ``several`` nothing inside waits for those others."""
        if self._users(owner) <= inside:
            return True
        if not several or makes_state(owner):
            return False
        return not any(isinstance(each, GroupOp) for each in self._order.between({owner, *inside}))

    def _takes(self, group: GroupOp) -> bool:
        if group not in self._taken:
            self._taken[group] = self.sequences.takes(group)
        return self._taken[group]

    def _users(self, group: GroupOp) -> set[Operation]:
        if group not in self._used_by:
            self._used_by[group] = {user for value in group.results for user in users_of(value)}
        return self._used_by[group]


class _Stacker:
    def __init__(
        self, context: Context, kinds: Sequence[Sequences], found: Sequence[TensorOperation]
    ) -> None:
        self.context = context
        self.groups = [operation for operation in found if isinstance(operation, GroupOp)]
        position = {operation: at for at, operation in enumerate(found)}
        borders = Borders(context, self.groups, kinds[0].decided)
        self.kinds = [_Candidates(sequences, borders, position) for sequences in kinds]

    def best_stacks(self) -> list[tuple[Sequences, Joint]]:
        """The disjoint stacks, of any kinds, that together save the most cycles.

        Those that may grow are tried against the best of the others. In a program of a range these stay: a
        sequence that is faster at usual sizes may be much slower at others.
        """
        others = self._settled([kind for kind in self.kinds if not kind.grows])
        if isinstance(self.context, RangedContext):
            taken = [group for stack in others for group in stack.groups]
            for kind in self.kinds:
                if kind.grows:
                    kind.leave_out(taken)
        best = self._settled(self.kinds)
        return [
            (stack.candidates.sequences, stack.candidates.sequences.detailed(stack.joint))
            for stack in best
            if stack.joint is not None
        ]

    def _settled(self, kinds: Sequence[_Candidates]) -> list[_Stack]:
        """Return the best stacks of some kinds. A stack whose cycles are only predicted is searched first."""
        for kind in kinds:
            kind.search_first()
        while True:
            best = self._best(kinds)
            promised = [stack for stack in best if stack.joint is None]
            if not promised:
                return best
            for stack in promised:
                stack.candidates.search(stack.numbers)

    def _best(self, kinds: Sequence[_Candidates]) -> list[_Stack]:
        """The best stacks of some kinds, by known and predicted cycles.

        Dynamic programming over groups, from the last to the first. A state is the set of earlier groups that
        are already in stacks, with the best selection that leads to it.
        """
        states: _States = {frozenset(): _Selection(0, ())}
        for last in reversed(self.groups):
            stacks = [stack for kind in kinds for stack in kind.ending(last)]
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
