"""The code of one phase of a program that runs a range of sizes, divided in several ways."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum

import numpy as np
from xdsl.ir import SSAValue

from compiler.codegen.kernel import Kernel
from compiler.dialect.ops import GroupOp, TensorOperation
from compiler.evaluation.sizes import Domain
from compiler.graph import CapacityError
from compiler.lowering.generate import generate, generate_stages
from compiler.lowering.record import Cut, Work
from compiler.passes.base import Context
from compiler.passes.groups.group_cost import search_of
from compiler.passes.work import kind_of_group, symbol_of, target_of, work_of
from compiler.search.search import Template
from compiler.search.signature import signature, template_key


class Way(Enum):
    """Who divides the work of a phase: the search at the usual sizes, one at others, or the lowering.

    A sequence is searched as one, or each of its stages by itself.
    """

    DECIDED = "decided"
    TOGETHER = "together"
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
        if way is Way.TOGETHER:
            return generate(prefix, self._together(work), target, waits, settled)
        work = self._divided(work, way is Way.SEARCHED)
        return (generate_stages if work.stages else generate)(prefix, work, target, waits, settled)

    @property
    def ways(self) -> tuple[Way, ...]:
        """Those that there are at other sizes than the usual ones."""
        sequence = isinstance(self.operation, GroupOp) and kind_of_group(self.operation) is not None
        return (Way.TOGETHER, Way.SEARCHED, Way.RULE) if sequence else (Way.SEARCHED, Way.RULE)

    def _together(self, work: Work) -> Work:
        """A sequence with the cut of a search at the point of the domain; CapacityError if there is none."""
        cut = self._search(self._known_work()) if self.context.effort.total else None
        if cut is None:
            raise CapacityError([f"no division of '{work.name}' fits"])
        return replace(work, cut=cut, exchanges=None)

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
        work = replace(work, cut=None, exchanges=None)
        key = template_key(signature(work, target))
        if key not in self.searches:
            self.searches[key] = self._found(Template(key, work, target))
        return self.searches[key]

    def _found(self, template: Template) -> Cut | None:
        """What a search finds; None if nothing fits, or nothing better than the rule of the lowering."""
        search = search_of(self.context)
        if template.work.stages:
            result = search.search_stack(template)
            return None if result is None else result.best.cut
        try:
            (result,) = search.run([template])
        except CapacityError:
            return None
        return result.best.cut
