"""The code of one phase of a program that runs a range of sizes, divided in several ways."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum

import numpy as np
from xdsl.ir import SSAValue

from compiler.codegen.kernel import Kernel
from compiler.dialect.ops import GroupOp, NodeOperation, TensorOperation
from compiler.evaluation.sizes import Domain
from compiler.graph import CapacityError
from compiler.lowering.generate import generate, generate_stages
from compiler.lowering.record import Cut, Work
from compiler.passes.base import Context
from compiler.passes.extents import formulas_of, number_formulas
from compiler.passes.groups.group_cost import search_of
from compiler.passes.work import symbol_of, target_of, work_of
from compiler.search.search import Template
from compiler.search.signature import signature, template_key


class Way(Enum):
    """Who divides the work of a phase: the search at the usual sizes, one at others, or the lowering."""

    DECIDED = "decided"
    SEARCHED = "searched"
    RULE = "rule"


@dataclass
class PhaseCode:
    """Generates the code of a phase for ``context.domain``; ``searches`` has the cuts that were searched."""

    context: Context
    number: int
    operation: TensorOperation
    settled: Sequence[SSAValue]
    searches: dict[str, Cut | None]

    @property
    def node(self) -> str:
        return self.operation.node.data

    def kernel(self, version: int, way: Way) -> Kernel:
        """The code of a version, by its number; what ``generate`` raises."""
        prefix = f"p{self.number}v{version}" if version else f"p{self.number}"
        work, target = work_of(self.context, self.operation), target_of(self.context)
        waits, settled = self.operation.barrier is not None, frozenset(map(symbol_of, self.settled))
        if way is Way.DECIDED:
            return generate(prefix, work, target, waits, settled)
        work = self._divided(work, way is Way.SEARCHED)
        return (generate_stages if work.stages else generate)(prefix, work, target, waits, settled)

    def _divided(self, work: Work, searched: bool) -> Work:
        """The work, or each of its stages, with the cut of a search at the point of the domain, or none."""
        parts = work.stages or (work,)
        cuts: list[Cut | None] = [None] * len(parts)
        if searched and self.context.effort.total:
            known = self._known_work()
            cuts = [self._search(part) for part in known.stages or (known,)]
        divided = tuple(replace(part, cut=cut) for part, cut in zip(parts, cuts, strict=True))
        return replace(work, stages=divided, cut=None, exchanges=None) if work.stages else divided[0]

    def _known_work(self) -> Work:
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

    def _search(self, work: Work) -> Cut | None:
        target = target_of(self.context)
        work = replace(work, cut=None)
        key = template_key(signature(work, target))
        if key not in self.searches:
            try:
                (result,) = search_of(self.context).run([Template(key, work, target)])
                self.searches[key] = result.best.cut
            except CapacityError:
                self.searches[key] = None
        return self.searches[key]


def sizes_of_phase(context: Context, operation: TensorOperation) -> tuple[str, ...]:
    """The dimensions and sums of which the extents and numbers of an operation or group are made, sorted."""
    members = operation.members if isinstance(operation, GroupOp) else [operation]
    values = [*operation.operands, *operation.results, *(v for each in members for v in each.results)]
    formulas = [formula for value in values for formula in formulas_of(context, value) or ()]
    for each in members:
        if isinstance(each, NodeOperation):
            formulas += number_formulas(context, each)
    return tuple(sorted({name for formula in formulas for name in formula.names}))
