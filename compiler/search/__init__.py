"""The search: which of the ways in which a group can be divided takes the fewest cycles.

Equal groups are one template and are searched once. The cycles are those of the estimate (``compiler.cost``);
how many ways are tried depends on counts alone, so that the same graph always gives the same program.
"""

from compiler.search.effort import EFFORTS, Effort
from compiler.search.plan import Plan, read_plan
from compiler.search.search import Found, Search, Template, Trial, Watch
from compiler.search.signature import signature, template_key

__all__ = [
    "EFFORTS",
    "Effort",
    "Found",
    "Plan",
    "Search",
    "Template",
    "Trial",
    "Watch",
    "read_plan",
    "signature",
    "template_key",
]
