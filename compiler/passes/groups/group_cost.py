"""Pass ``group_cost``: how the work of every group is divided, by a search over its template's candidates.

A plan takes the place of the search.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i64

from compiler.codegen.kernel import Kernel
from compiler.dialect.ops import GroupOp
from compiler.graph import GraphError
from compiler.lowering.generate import DOES_NOT_FIT, generate
from compiler.lowering.record import Cut
from compiler.passes.base import Context, operations
from compiler.passes.work import cut_attribute
from compiler.search import Found, Plan, Search, Template, Trial
from compiler.search.cost import estimate
from compiler.search.cost.pricing import Pricing
from tx8isa.machine.description import Machine


class GroupCostPass:
    """Writes cut, estimate and spm_size of groups; nothing with the effort ``off`` and no plan."""

    name = "group_cost"

    def run(self, context: Context, module: ModuleOp) -> None:
        if context.plan is not None:
            plan = context.plan
            context.found = [_replayed(plan, template) for template in context.templates]
        elif context.effort.total:
            search = Search(_price(context.machine), context.effort, watch=context.watch)
            context.found = search.run(context.templates)
        for operation in operations(module):
            if isinstance(operation, GroupOp) and operation.template is not None and context.found:
                decide(operation, context.found[operation.template.value.data].best)


class _price:
    """Estimates that share what instructions cost."""

    def __init__(self, machine: Machine) -> None:
        self.machine, self.pricing = machine, Pricing(machine)

    def __call__(self, kernel: Kernel) -> int:
        return estimate(kernel, self.machine, self.pricing).cycles


def _replayed(plan: Plan, template: Template) -> Found:
    """The decision of a plan; GraphError when the template's lowering cannot use it."""
    decision = plan.decision(template.key, template.work.name)
    cut: Cut | None = decision.cut.cut() if decision.cut is not None else None
    trial = Trial(cut, decision.cycles, _spm_bytes(template, cut))
    return Found(template.key, trial, (trial,))


def _spm_bytes(template: Template, cut: Cut | None) -> int:
    """Scratchpad bytes of the code for a cut."""
    work = replace(template.work, cut=cut)
    try:
        return generate("p", work, template.target).spm_bytes
    except DOES_NOT_FIT as overflow:
        problem = str(overflow)
    except (KeyError, ValueError) as error:
        problem = f"its lowering does not know this division: {error}"
    raise GraphError([f"the plan's entry for node '{work.name}' ({work.op}) cannot be used: {problem}"])


def decisions(context: Context) -> Callable[[Template], Found | None]:
    """What is decided for a template that may be or not: the search, or what the plan says of it.

    None where nothing fits, or the plan does not have it.
    """
    if context.plan is None:
        return Search(_price(context.machine), context.effort).alternative
    plan = context.plan
    return lambda template: _replayed(plan, template) if template.key in plan.templates else None


def decide(group: GroupOp, best: Trial) -> None:
    """Write down what was decided for a group."""
    if best.cut is not None:
        group.attributes["cut"] = cut_attribute(best.cut)
    group.attributes["estimate"] = IntegerAttr(best.cycles or 0, i64)
    group.attributes["spm_size"] = IntegerAttr(best.spm_bytes, i64)
