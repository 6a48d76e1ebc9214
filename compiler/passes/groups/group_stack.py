"""Pass ``group_stack``: groups of convolutions and pools become one where what is between them need not leave
the scratchpad.

From every group backwards, those that work for it alone are taken in one after another; each row of groups on
the way may become a stack. Of all of them those are made that save most cycles together. The cycles of the
groups apart are those that ``group_cost`` found, and what their barriers take; a stack is searched in the
same way.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from compiler.dialect.ops import GroupOp, TensorOperation
from compiler.lowering.record import Work
from compiler.lowering.stack.stages import JOIN, can_be_stage, stages_of
from compiler.passes.base import Context, operations
from compiler.passes.work import stacked, target_of, work_of
from compiler.patterns import StackPattern
from compiler.search import Found, Template, signature, template_key
from compiler.search.cost import barrier_cycles

from .group_cost import decide, decisions
from .group_load_store import add_moves, remove_moves
from .group_mapping import GroupMappingPass
from .grouping import Members, dissolve, group

_SHARDING = ("tile_parallel", "chip_parallel")
_MOST_STATES = 64
"""Sets of taken groups that are followed at a time."""


class GroupStackPass:
    """Merges groups that have a place in the search; nothing without search and plan."""

    name = "group_stack"

    def run(self, context: Context, module: ModuleOp) -> None:
        pattern = context.patterns.stack if context.patterns is not None else None
        if pattern is None or (context.plan is None and not context.effort.total):
            return
        stacker = _Stacker(context, pattern, list(operations(module)))
        made = stacker.best()
        for choice in made:
            stacker.make(choice)
        known = list(zip(context.templates, context.found, strict=False)) + stacker.priced
        GroupMappingPass().run(context, module)
        if context.found:
            _remember(context, known)


def _remember(context: Context, known: Sequence[tuple[Template, Found]]) -> None:
    """Let ``found`` say what was decided for the templates that there are now, ``others`` for all other."""
    by_key = {template.key: found for template, found in known}
    context.found = [by_key.pop(template.key) for template in context.templates]
    context.others = [(template, found) for template, found in known if template.key in by_key]


@dataclass(frozen=True)
class _Choice:
    """Groups that become one: what was found for the stack, and the cycles that it saves."""

    groups: list[GroupOp]
    found: Found
    gain: int


@dataclass(frozen=True)
class _Made:
    """Stacks that have no group in common, the last first, and the cycles that they save together."""

    gain: int
    choices: tuple[_Choice, ...]

    def with_choice(self, choice: _Choice) -> _Made:
        return _Made(self.gain + choice.gain, (*self.choices, choice))


def _keep(states: dict[frozenset[GroupOp], _Made], taken: frozenset[GroupOp], made: _Made) -> None:
    """Remember what was made for a set of groups that are taken, if it is the best for it."""
    if taken not in states or states[taken].gain < made.gain:
        states[taken] = made


class _Stacker:
    def __init__(self, context: Context, pattern: StackPattern, found: Sequence[TensorOperation]) -> None:
        self.context, self.pattern = context, pattern
        self.place = {operation: at for at, operation in enumerate(found)}
        self.groups = [operation for operation in found if isinstance(operation, GroupOp)]
        self.works: dict[GroupOp, Work] = {}
        self.names: dict[SSAValue, str] = {}
        self.decided: dict[str, Found | None] = {}
        self.priced: list[tuple[Template, Found]] = []
        self.decision = decisions(context)
        self.barrier = barrier_cycles(context.machine)

    def best(self) -> list[_Choice]:
        """The stacks, none with a group of another, that save most cycles together.

        From the last group to the first, with the most that can have been saved for each set of earlier
        groups that are in stacks already.
        """
        states: dict[frozenset[GroupOp], _Made] = {frozenset(): _Made(0, ())}
        for last in reversed(self.groups):
            following: dict[frozenset[GroupOp], _Made] = {}
            choices = [
                choice for groups in self._growing(last) if (choice := self._choice(groups)) is not None
            ]
            for taken, made in states.items():
                _keep(following, taken - {last}, made)
                for choice in () if last in taken else choices:
                    others = frozenset(choice.groups) - {last}
                    if choice.gain > 0 and not others & taken:
                        _keep(following, taken | others, made.with_choice(choice))
            best = sorted(following.items(), key=lambda state: -state[1].gain)
            states = dict(best[:_MOST_STATES])
        return list(states[frozenset()].choices)

    def _growing(self, last: GroupOp) -> Iterator[list[GroupOp]]:
        """Rows of groups in order: the last with the one before it, then with one more, and so on."""
        found = [last]
        while self._fits(found[0]) and len(found) < self.pattern.most:
            before = self._before(found)
            if before is None:
                return
            found = [before, *found]
            yield found

    def _before(self, found: Sequence[GroupOp]) -> GroupOp | None:
        """The last group all of whose users are among these; None if it cannot be a stage."""
        owners = {value.owner for each in found for value in each.operands} - set(found)
        alone = [
            owner
            for owner in owners
            if isinstance(owner, GroupOp) and all(use.operation in found for use in owner.results[0].uses)
        ]
        return max(filter(self._fits, alone), key=self.place.__getitem__, default=None)

    def _fits(self, operation: GroupOp) -> bool:
        """Whether the pattern and the lowering of stacks allow a group."""
        allowed = operation.members[0].op in self.pattern.operators
        return allowed and can_be_stage(self._work(operation))

    def _work(self, operation: GroupOp) -> Work:
        if operation not in self.works:
            self.works[operation] = work_of(self.context, operation, self._symbol)
        return self.works[operation]

    def _symbol(self, value: SSAValue) -> str:
        return self.names.setdefault(value, f"v.{len(self.names)}")

    def _choice(self, groups: list[GroupOp]) -> _Choice | None:
        """What a stack of these groups saves; None if there can be none."""
        work, target = stacked([self._work(each) for each in groups]), target_of(self.context, groups[-1])
        template = Template(template_key(signature(work, target)), work, target)
        if template.key not in self.decided:
            self.decided[template.key] = self._decided(template)
        found = self.decided[template.key]
        if found is None or found.best.cycles is None:
            return None
        return _Choice(groups, found, self._apart(groups) - found.best.cycles)

    def _decided(self, template: Template) -> Found | None:
        try:
            stages_of(template.work)
        except ValueError:
            return None
        found = self.decision(template)
        if found is not None:
            self.priced.append((template, found))
        return found

    def _apart(self, groups: Sequence[GroupOp]) -> int:
        """Cycles of groups that are not stacked; joins take none, most pieces lie where they are joined."""
        cycles = 0
        layer: dict[object, int] = {}
        for each in groups:
            joins = each.members[0].op == JOIN
            before = (layer[value.owner] for value in each.operands if value.owner in layer)
            layer[each] = max(before, default=-1) + (not joins)
            if each.estimate is not None and not joins:
                cycles += each.estimate.value.data
        return cycles + self.barrier * max(layer.values())

    def make(self, choice: _Choice) -> None:
        """Let the groups be one, where the last of them stands."""
        last = choice.groups[-1]
        given = {name: last.attributes[name] for name in _SHARDING}
        members: Members = []
        for each in choice.groups:
            remove_moves(each)
            members += dissolve(each)
        made = group(members, self.pattern.tag)
        add_moves(made)
        made.attributes |= given
        decide(made, choice.found.best)
