"""Generates the code of one phase of a program that runs a range of sizes, with several divisions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from itertools import pairwise

import numpy as np
from xdsl.ir import SSAValue

from compiler.codegen.kernel import Kernel
from compiler.codegen.slices.tensors import DdrTensor
from compiler.dialect.ops import GroupOp, NodeOperation, TensorOperation
from compiler.evaluation.sizes import Domain
from compiler.graph import CapacityError
from compiler.lowering.generate import generate, generate_stages
from compiler.lowering.record import AnyWork, Cut, SequenceWork, without_exchanges
from compiler.passes.base import RangedContext
from compiler.passes.extents import formulas_of, number_formulas
from compiler.passes.groups.group_cost import search_of
from compiler.passes.work import kind_of_group, symbol_of, target_of, together, work_of
from compiler.search.search import Template, Trial
from compiler.search.signature import signature, template_key

Parts = tuple[tuple[int, int, Cut | None], ...]
"""A part of a sequence: its first stage, the end of its stages, and its cut."""
_LONGEST_PART = 6
"""Most stages of a part that is tried."""


class Way(Enum):
    """The origin of a division: the search at the usual sizes, the search at other sizes, or the lowering's
    rule.

    A sequence is searched as a whole, or in parts.
    """

    DECIDED = "decided"
    TOGETHER = "together"
    SEARCHED = "searched"
    RULE = "rule"


@dataclass(frozen=True)
class PhaseDivision:
    """The division of a version's work: ``cut`` for all of it, or ``parts`` of a sequence, each with its cut.

    Neither is set if the group or the lowering decides.
    """

    way: Way
    cut: Cut | None = None
    parts: Parts = ()


@dataclass
class PhaseCode:
    """Generates the code of a phase for ``context.domain``; ``searches`` caches search results."""

    context: RangedContext
    number: int
    operation: TensorOperation
    settled: Sequence[SSAValue]
    searches: dict[str, Trial | None]

    @property
    def node(self) -> str:
        return self.operation.node.data

    def kernel(self, version: int, division: PhaseDivision) -> Kernel:
        """The code of a version, by its number; raises the errors of ``generate``."""
        return self.kernel_of(f"p{self.number}v{version}" if version else f"p{self.number}", division)

    def kernel_of(self, prefix: str, division: PhaseDivision) -> Kernel:
        """The code whose symbols begin with ``prefix``; raises the errors of ``generate``."""
        work = work_of(self.context, self.operation)
        target = replace(target_of(self.context), small=True)
        waits, settled = self.operation.barrier is not None, frozenset(map(symbol_of, self.settled))
        if division.way is not Way.DECIDED:
            work = self._divided(work, division)
        in_parts = isinstance(work, SequenceWork) and division.way in (Way.SEARCHED, Way.RULE)
        return (generate_stages if in_parts else generate)(prefix, work, target, waits, settled)

    @property
    def ways(self) -> tuple[Way, ...]:
        """The origins of divisions for a version at other sizes than the usual ones."""
        sequence = isinstance(self.operation, GroupOp) and kind_of_group(self.operation) is not None
        return (Way.TOGETHER, Way.SEARCHED, Way.RULE) if sequence else (Way.SEARCHED, Way.RULE)

    def division(self, way: Way) -> PhaseDivision:
        """The division that a search finds at the domain's point.

        CapacityError if a sequence does not fit as a whole.
        """
        searched = way is not Way.DECIDED and way is not Way.RULE and bool(self.context.effort.total)
        if way is Way.TOGETHER:
            trial = self._search(self._known_work()) if searched else None
            if trial is None:
                raise CapacityError([f"no division of '{self._known_work().name}' fits"])
            return PhaseDivision(way, trial.cut)
        if not searched:
            return PhaseDivision(way)
        work = self._known_work()
        if isinstance(work, SequenceWork):
            return PhaseDivision(way, parts=self._best_parts(work))
        trial = self._search(work)
        return PhaseDivision(way, None if trial is None else trial.cut)

    def _divided(self, work: AnyWork, division: PhaseDivision) -> AnyWork:
        """The work with the cuts of a division: as a whole, or the stages of a sequence in parts."""
        _check_parts(work, division.parts)
        if not isinstance(work, SequenceWork) or division.way is Way.TOGETHER:
            return replace(without_exchanges(work), cut=division.cut)
        stages = tuple(replace(stage, cut=None) for stage in work.stages)
        made = tuple(self._part(stages[begin:end], cut) for begin, end, cut in division.parts)
        return replace(work, stages=made or stages, cut=None, exchanges=None)

    def _part(self, stages: Sequence[AnyWork], cut: Cut | None) -> AnyWork:
        """Stages of a part, one after another in the scratchpads, or a single stage."""
        if len(stages) == 1:
            return replace(stages[0], cut=cut)
        assert isinstance(self.operation, GroupOp)
        kind = kind_of_group(self.operation)
        assert kind is not None
        return together(kind, stages, cut=cut)

    def _best_parts(self, sequence: SequenceWork) -> Parts:
        """The parts of a sequence that are expected to take the fewest cycles, one after another.

        None if a stage does not fit as a single part.
        """
        stages = sequence.stages
        best: list[tuple[int, Parts] | None] = [(0, ())]
        for end in range(1, len(stages) + 1):
            found: list[tuple[int, Parts]] = []
            for begin in range(end):
                before, trial = best[begin], self._part_trial(sequence, begin, end)
                if before is not None and trial is not None:
                    found.append((before[0] + (trial.cycles or 0), (*before[1], (begin, end, trial.cut))))
            best.append(min(found, key=lambda each: each[0], default=None))
        return () if best[-1] is None else best[-1][1]

    def _part_trial(self, sequence: SequenceWork, begin: int, end: int) -> Trial | None:
        """The best division of some stages of a sequence as one part; None if they cannot be one.

        A part stores only the result of its last stage, so later parts must not need an earlier result.
        """
        stages = sequence.stages
        part = stages[begin:end]
        if len(part) == len(stages) or len(part) > _LONGEST_PART:
            return None
        inner = {stage.output.symbol for stage in part[:-1]}
        needed = (*sequence.others, *(tensor for stage in stages[end:] for tensor in _read(stage)))
        if any(tensor.symbol in inner for tensor in needed):
            return None
        return self._search(self._part(part, None))

    def _known_work(self) -> AnyWork:
        """The work with the numbers of the point of the domain in place of sizes."""
        domain = self.context.domain
        assert domain is not None
        alone = np.zeros_like(domain.alive)
        alone[domain.anchor] = True
        self.context.domain = Domain(domain.symbols, domain.anchor, alone, {})
        try:
            return work_of(self.context, self.operation)
        finally:
            self.context.domain = domain

    def _search(self, work: AnyWork) -> Trial | None:
        """The best division of a work that the search finds; None if none fits the scratchpad."""
        target = target_of(self.context)
        work = replace(without_exchanges(work), cut=None)
        key = template_key(signature(work, target))
        if key not in self.searches:
            self.searches[key] = self._found(Template(key, work, target))
        return self.searches[key]

    def _found(self, template: Template) -> Trial | None:
        search, work = search_of(self.context), template.work
        if not isinstance(work, SequenceWork):
            try:
                (result,) = search.run([template])
            except CapacityError:
                return None
            return result.best
        assert isinstance(self.operation, GroupOp)
        kind = kind_of_group(self.operation)
        assert kind is not None
        try:
            kind.check(work)
        except ValueError:
            return None
        found = search.search_stack(template)
        return None if found is None else search.with_details(template, found).best


def _check_parts(work: AnyWork, parts: Parts) -> None:
    """ValueError unless parts are of all stages of a work, one after another, or there are none."""
    stages = len(work.stages) if isinstance(work, SequenceWork) else 0
    places = [(begin, end) for begin, end, _ in parts]
    borders = [0, *(end for _, end in places)]
    if parts and (borders != sorted({*borders, stages}) or places != [*pairwise(borders)]):
        raise ValueError(f"parts {places}, expected all of its {stages} stages")


def _read(work: AnyWork) -> Iterator[DdrTensor]:
    """The tensors that a stage of a sequence reads."""
    return (tensor for tensor in work.operands if tensor is not None)


def sizes_of_phase(context: RangedContext, operation: TensorOperation) -> tuple[str, ...]:
    """The dimensions and sums that occur in the extents and numbers of an operation or group, sorted."""
    members = operation.members if isinstance(operation, GroupOp) else [operation]
    values = [*operation.operands, *operation.results, *(v for each in members for v in each.results)]
    formulas = [formula for value in values for formula in formulas_of(context, value) or ()]
    for each in members:
        if isinstance(each, NodeOperation):
            formulas += number_formulas(context, each)
    return tuple(sorted({name for formula in formulas for name in formula.dimensions}))
