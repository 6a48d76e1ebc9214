"""Pass ``group_stack``: sequences of groups become one group where that saves time.

There are kinds of sequences (``patterns.sequences``): stacks of convolutions and pools, products,
normalizations and attention that are sharded over a mesh of tiles, convolutions with a global pool, and
groups of any operators of which each tile computes slices.

What one of them computes for the next stays in the scratchpad. From every group backwards, the groups whose
results only the stack uses are added one after another, and each sequence of groups on the way is a possible
stack. Its estimate is compared with those of its groups as they are, which ``group_cost`` found, and of the
borders between them (``borders.py``). Among all possible stacks, those are made that together save the most
cycles. At last groups grow into sequences that store several values (``growth.py``), where that saves time.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from xdsl.dialects.builtin import ModuleOp

from compiler.dialect.ops import GroupOp, TensorOperation
from compiler.passes.base import Context, operations
from compiler.passes.work import unaliased
from compiler.search import SearchResult, Template, Trial

from .borders import Borders
from .boundaries import StackSpan, near, some
from .group_cost import with_ends
from .group_mapping import GroupMappingPass
from .growth import grown
from .layer_cost import LEAST_BARRIERS
from .sequences import Joint, Sequences
from .views import users_of

_SUM = "Int8Sum"
_MOST_STATES = 64
"""How many sets of taken groups the selection of stacks follows at a time."""


class GroupStackPass:
    """Merges groups into stacks; nothing without search and plan, or if all values are to be in DDR."""

    name = "group_stack"

    def run(self, context: Context, module: ModuleOp) -> None:
        patterns = context.patterns.sequences if context.patterns is not None and context.residency else ()
        if not patterns or (context.plan is None and not context.effort.total):
            return
        known = list(zip(context.templates, context.results, strict=False))
        decided = _decided(context, module)
        for pattern in patterns:
            sequences = Sequences(context, pattern, decided)
            made = _Stacker(context, sequences, list(operations(module))).best_stacks()
            for stack in made:
                sequences.make(stack.joint)
            results = [stack.joint.result for stack in made]
            if pattern.kind.grows:
                results += grown(context, module, sequences)
            context.steps += results
            keys = {result.key for result in results}
            known += [
                (template, with_ends(context, template, result) if template.key in keys else result)
                for template, result in sequences.results()
            ]
        GroupMappingPass().run(context, module)
        if context.results:
            _assign_results(context, known)


def _decided(context: Context, module: ModuleOp) -> dict[GroupOp, Trial]:
    """The decisions of the search, if there was one, by the groups that they are for."""
    return {
        each: context.results[each.template.value.data].best
        for each in operations(module)
        if context.results and isinstance(each, GroupOp) and each.template is not None
    }


def _assign_results(context: Context, known: Sequence[tuple[Template, SearchResult]]) -> None:
    """Divide all results into those of the present templates, in their order, and the others."""
    by_key = {template.key: result for template, result in known}
    context.results = [by_key.pop(template.key) for template in context.templates]
    context.other_results = [(template, result) for template, result in known if template.key in by_key]


@dataclass(frozen=True)
class _Stack:
    """A possible stack, and the cycles that it saves."""

    joint: Joint
    gain: int

    @property
    def groups(self) -> Sequence[GroupOp]:
        """Its groups in order."""
        return self.joint.groups


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
    """Enter a selection if it saves more than the one that is known for the same set of taken groups."""
    if taken not in states or states[taken].gain < selection.gain:
        states[taken] = selection


def _counted(groups: Sequence[GroupOp]) -> int:
    """How many groups a sequence has; a sum of bytes, which would be a step if it were of floats, is none."""
    return sum(each.members[0].op != _SUM for each in groups)


class _Stacker:
    def __init__(self, context: Context, sequences: Sequences, found: Sequence[TensorOperation]) -> None:
        self.context, self.candidates, self.pattern = context, sequences, sequences.pattern
        self.position = {operation: at for at, operation in enumerate(found)}
        self.groups = [operation for operation in found if isinstance(operation, GroupOp)]
        self.number = {operation: at for at, operation in enumerate(self.groups)}
        self.known: dict[StackSpan, _Stack | None] = {}
        self.borders = Borders(context, self.groups, sequences.decided)

    def best_stacks(self) -> list[_Stack]:
        """The stacks without a common group that together save the most cycles.

        Of more than the effort allows, some are tried, and those near the best ones until none is left.
        """
        spans = {self._span(groups) for found in self.sequences.values() for groups in found}
        whole = self.context.plan is not None or self.pattern.kind.longest
        if whole or sum(span.length for span in spans) <= self.context.effort.stacked:
            return self._best_of(spans)
        tried = some(spans)
        while True:
            best = self._best_of(tried)
            others = near(spans - tried, [self._span(stack.groups) for stack in best])
            if not others:
                return best
            tried |= others

    @cached_property
    def sequences(self) -> dict[GroupOp, list[list[GroupOp]]]:
        """The sequences of groups that may be stacked, keyed by their last group."""
        return {last: list(self._sequences(last)) for last in self.groups}

    def _span(self, groups: Sequence[GroupOp]) -> StackSpan:
        return StackSpan(self.number[groups[0]], self.number[groups[-1]], len(groups))

    def _best_of(self, tried: Collection[StackSpan]) -> list[_Stack]:
        """The best stacks among these.

        Groups are visited from the last to the first. A state is the set of earlier groups that are in
        stacks already, with the best selection that leads to it.
        """
        states: _States = {frozenset(): _Selection(0, ())}
        inside: set[GroupOp] = set()
        for last in reversed(self.groups):
            stacks = [] if last in inside else list(self._stacks(last, tried))
            if self.pattern.kind.longest:
                inside.update(group for stack in stacks if stack.gain > 0 for group in stack.groups)
            following: _States = {}
            for taken, selection in states.items():
                _keep_best(following, taken - {last}, selection)
                if last in taken:
                    continue
                for stack in stacks:
                    others = frozenset(stack.groups) - {last}
                    if stack.gain > 0 and not others & taken:
                        _keep_best(following, taken | others, selection.with_stack(stack))
            best = sorted(following.items(), key=lambda state: -state[1].gain)
            states = dict(best[:_MOST_STATES])
        return list(states[frozenset()].stacks)

    def _stacks(self, last: GroupOp, tried: Collection[StackSpan]) -> Iterator[_Stack]:
        """The possible stacks that end with ``last``, of those to try."""
        for groups in self.sequences[last]:
            span = self._span(groups)
            if span in tried:
                if span not in self.known:
                    self.known[span] = self._stack(groups)
                stack = self.known[span]
                if stack is not None:
                    yield stack

    def _sequences(self, last: GroupOp) -> Iterator[list[GroupOp]]:
        """Sequences of groups that end with ``last``: of two groups, of three, and so on; or the longest."""
        groups = [last]
        while self.candidates.takes(groups[0]) and _counted(groups) < self.pattern.most:
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
        return max(filter(self.candidates.takes, alone), key=self.position.__getitem__, default=None)

    def _stack(self, groups: list[GroupOp]) -> _Stack | None:
        """The stack of these groups; None if it is not possible."""
        joint = self.candidates.searched(groups, self.borders)
        if joint is None:
            return None
        gain = self.borders.gain(groups, joint.result.best)
        least = LEAST_BARRIERS * self.borders.barrier.middle if self.pattern.kind.grows else 0
        return _Stack(joint, gain if gain > least else 0)
