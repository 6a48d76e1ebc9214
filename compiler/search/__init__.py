"""The search: which of the ways in which a group can be divided takes the fewest cycles.

Equal groups are one template and are searched once. The cycles are those of the estimate (``search.cost``);
how many ways are tried depends on counts alone, so that the same graph always gives the same program.
"""

from .effort import EFFORTS, Effort
from .plan import Plan, read_plan
from .search import Found, Search, Template, Trial, Watch
from .signature import signature, template_key

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
