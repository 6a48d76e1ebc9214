"""Searches for the division of a group's work that takes the fewest cycles.

Equal groups are one template, which is searched once. The cycles are those of the estimate
(``search.cost``), at the values of the machine's figures and at both ends of their ranges. The number of
candidates does not depend on time, so that the same graph always gives the same program.
"""

from .effort import EFFORTS, Effort
from .plan import Plan, read_plan
from .search import CONTENDS, Estimator, RangeEstimator, Search, SearchProgress, SearchResult, Template, Trial
from .signature import signature, template_key

__all__ = [
    "CONTENDS",
    "EFFORTS",
    "Effort",
    "Estimator",
    "Plan",
    "RangeEstimator",
    "Search",
    "SearchProgress",
    "SearchResult",
    "Template",
    "Trial",
    "read_plan",
    "signature",
    "template_key",
]
