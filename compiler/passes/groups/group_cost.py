"""Pass ``group_cost``: a search decides how the work of every group is divided.

The candidates of each template are compared by their estimated cycles. With a plan nothing is searched.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i64

from compiler.dialect.ops import GroupOp
from compiler.lowering.generate import DOES_NOT_FIT
from compiler.passes.base import Context, computes, operations
from compiler.passes.work import cut_attribute
from compiler.search import Plan, Search, SearchResult, Template, Trial
from compiler.search.cost import NOTHING, Estimates, Shares
from compiler.search.plan import OTHER, PlanMisfit, cut_of_plan


class GroupCostPass:
    """Writes cut and estimate of groups; does nothing with effort ``off``, or with a plan.

    A plan says which groups become sequences: pass ``group_stack`` writes its decisions when these are made.
    """

    name = "group_cost"

    def run(self, context: Context, module: ModuleOp) -> None:
        if context.plan is not None or not context.effort.total:
            return
        search = search_of(context, _is_alone(module))
        search.progress = context.search_progress
        context.results = search.run(context.templates)
        _write_decisions(context, module)


def planned_kinds(context: Context, module: ModuleOp) -> dict[GroupOp, Trial]:
    """The share of each group in the cost of kinds of commands, before a plan's sequences are made."""
    kinds = search_of(context).count_kinds(context.templates)
    return {
        each: Trial(None, None, kinds=context.kind_use.shares(sorted(kinds[each.template.value.data])))
        for each in operations(module)
        if isinstance(each, GroupOp) and each.template is not None
    }


def decide_as_planned(context: Context, module: ModuleOp, plan: Plan, parts: Mapping[GroupOp, Trial]) -> None:
    """Divide all groups as a plan says; PlanMisfit for a plan that does not fit.

    ``parts``: the shares of sequences in the cost of kinds of commands, from ``planned_kinds``.
    """
    for template in context.templates:
        plan.decision(template.key, template.work.name)
    keys = {template.key for template in context.templates}
    for key, decision in plan.templates.items():
        if key not in keys:
            raise PlanMisfit(
                [f"the plan has an entry for node '{decision.node}' that nothing needs: {OTHER}"]
            )
    if plan.searched:
        alone = _is_alone(module)
        shares = {
            each.template.value.data: parts[each].kinds
            for each in operations(module)
            if isinstance(each, GroupOp) and each.template is not None and each in parts
        }
        searches = (search_of(context, alone, shares.get(n, NOTHING)) for n in range(len(context.templates)))
        context.results = [_planned(plan, *pair) for pair in zip(context.templates, searches, strict=True)]
        _write_decisions(context, module)


def rebuild_decisions(context: Context, module: ModuleOp) -> None:
    """Restore the pass's results in the context, from the cuts of the groups of a module."""
    if context.plan is None and context.effort.total:
        search = search_of(context, _is_alone(module))
        search.count_kinds(context.templates)
        context.results = [search.decided(template, template.work.cut) for template in context.templates]


def _write_decisions(context: Context, module: ModuleOp) -> None:
    for operation in operations(module):
        if isinstance(operation, GroupOp) and operation.template is not None:
            write_decision(operation, context.results[operation.template.value.data].best)


def _is_alone(module: ModuleOp) -> bool:
    """True if the program has a single phase."""
    return sum(computes(operation) for operation in operations(module)) == 1


def search_of(context: Context, alone: bool = False, groups: Shares = NOTHING) -> Search:
    """A search with the effort of a compilation, which ranks candidates over the ranges of the machine.

    ``alone`` and ``groups`` as in ``Estimates``.
    """
    estimates = Estimates(context.machine, alone, context.kind_use, groups)
    at_ends = estimates.at_ends if estimates.has_range else None
    return Search(
        estimates.cycles,
        context.effort,
        at_ends=at_ends,
        ahead=estimates.ahead,
        kinds=estimates.kinds,
        use=context.kind_use,
        tiles=estimates.tiles,
    )


def _planned(plan: Plan, template: Template, search: Search) -> SearchResult:
    """The decision of a plan; GraphError when the template's lowering cannot use it."""
    cut, work = cut_of_plan(plan.decision(template.key, template.work.name).cut), template.work
    try:
        trial = search.priced(template, cut)
    except DOES_NOT_FIT as overflow:
        problem = str(overflow)
    except (KeyError, ValueError) as error:
        problem = f"its lowering does not know this division: {error}"
    else:
        return SearchResult(template.key, trial, (trial,))
    raise PlanMisfit([f"the plan's entry for node '{work.name}' ({work.op}) cannot be used: {problem}"])


def stack_decisions(context: Context, groups: Shares) -> Callable[[Template], SearchResult | None]:
    """A search for the division of a sequence; its result is None if no candidate fits.

    ``groups`` as in ``Estimates``.
    """
    return search_of(context, groups=groups).search_stack


def with_ends(context: Context, template: Template, result: SearchResult) -> SearchResult:
    """The result of a search for a stack that is made, with its cycles at the ends of the range."""
    return search_of(context, groups=result.best.kinds).with_ends(template, result)


def with_details(context: Context, template: Template, result: SearchResult, groups: Shares) -> SearchResult:
    """The result of a search for a stack that is made, with the best details of its division.

    ``groups`` as in ``Estimates``.
    """
    return search_of(context, groups=groups).with_details(template, result)


def write_decision(group: GroupOp, best: Trial) -> None:
    """Write the decision for a group into its attributes."""
    if best.cut is not None:
        group.attributes["cut"] = cut_attribute(best.cut)
    group.attributes["estimate"] = IntegerAttr(best.cycles or 0, i64)
