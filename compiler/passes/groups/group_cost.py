"""Pass ``group_cost``: a search decides how the work of every group is divided.

The candidates of each template are compared by their estimated cycles. A plan takes the place of the search.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i64

from compiler.dialect.ops import GroupOp
from compiler.graph import GraphError
from compiler.lowering.generate import DOES_NOT_FIT, generate
from compiler.lowering.record import Cut
from compiler.passes.base import Context, operations
from compiler.passes.work import cut_attribute
from compiler.search import Plan, Search, SearchResult, Template, Trial
from compiler.search.cost import Estimates


class GroupCostPass:
    """Writes cut, estimate and spm_size of groups; nothing with effort ``off`` and without a plan."""

    name = "group_cost"

    def run(self, context: Context, module: ModuleOp) -> None:
        if context.plan is not None:
            plan = context.plan
            context.results = [_planned(plan, template) for template in context.templates]
        elif context.effort.total:
            search = search_of(context)
            search.progress = context.search_progress
            context.results = search.run(context.templates)
        for operation in operations(module):
            if isinstance(operation, GroupOp) and operation.template is not None and context.results:
                write_decision(operation, context.results[operation.template.value.data].best)


def search_of(context: Context) -> Search:
    """A search with the effort of a compilation, which ranks candidates over the ranges of the machine."""
    estimates = Estimates(context.machine)
    at_ends = estimates.at_ends if estimates.has_range else None
    return Search(estimates.cycles, context.effort, at_ends=at_ends, ahead=estimates.ahead)


def _planned(plan: Plan, template: Template) -> SearchResult:
    """The decision of a plan; GraphError when the template's lowering cannot use it."""
    decision = plan.decision(template.key, template.work.name)
    cut: Cut | None = decision.cut.cut() if decision.cut is not None else None
    trial = Trial(cut, decision.cycles, _spm_bytes(template, cut), ends=decision.ends)
    return SearchResult(template.key, trial, (trial,))


def _spm_bytes(template: Template, cut: Cut | None) -> int:
    """The bytes of the scratchpad that the code for a cut needs; GraphError if the cut is not possible."""
    work = replace(template.work, cut=cut)
    try:
        return generate("p", work, template.target).spm_bytes
    except DOES_NOT_FIT as overflow:
        problem = str(overflow)
    except (KeyError, ValueError) as error:
        problem = f"its lowering does not know this division: {error}"
    raise GraphError([f"the plan's entry for node '{work.name}' ({work.op}) cannot be used: {problem}"])


def stack_decisions(context: Context) -> Callable[[Template], SearchResult | None]:
    """A function that decides how a stack is divided: by a search, or as the plan says.

    It returns None if no candidate fits, or if the plan does not have the stack.
    """
    if context.plan is None:
        return search_of(context).search_stack
    plan = context.plan
    return lambda template: _planned(plan, template) if template.key in plan.templates else None


def with_ends(context: Context, template: Template, result: SearchResult) -> SearchResult:
    """The result of a search for a stack that is made, with its cycles at the ends of the range."""
    return result if context.plan is not None else search_of(context).with_ends(template, result)


def write_decision(group: GroupOp, best: Trial) -> None:
    """Write the decision for a group into its attributes."""
    if best.cut is not None:
        group.attributes["cut"] = cut_attribute(best.cut)
    group.attributes["estimate"] = IntegerAttr(best.cycles or 0, i64)
    group.attributes["spm_size"] = IntegerAttr(best.spm_bytes, i64)
