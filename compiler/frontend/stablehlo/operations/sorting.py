"""Sorts: values, values with companions, and the largest ones with their places."""

from __future__ import annotations

import numpy as np

from compiler.frontend.onnx.partial import Unsupported
from compiler.frontend.stablehlo.site import Rewriter, Site, Value

from .bodies import sort_key
from .reductions import counts_along


def _first(site: Site, x: Value, axis: int, count: int, largest: bool) -> tuple[Value, Value]:
    """Return the largest or smallest elements along an axis in order, and their places as int64.

    Equal elements keep their order.
    """
    if not 1 <= count <= x.shape[axis]:
        raise Unsupported(f"takes {count} of {x.shape[axis]} elements")
    size = site.constant(np.array([count], np.int64))
    names = [site.full(x), size.name]
    values, places = site.nodes("TopK", names, 2, axis=axis, largest=int(largest), sorted=1)
    return values, places


def _sort(site: Site) -> list[Value]:
    """Sort all operands in the order of one of them."""
    key, descending = sort_key(site.region())
    x, axis = site.operand(key), site.integer("dimension", -1) % max(site.operand(key).rank, 1)
    truth = site.type_of(x) == "bool"
    keys = site.cast(x, "int32") if truth else x
    values, places = _first(site, keys, axis, x.shape[axis], descending)
    results = []
    for at, operand in enumerate(site.operands):
        if at == key:
            results.append(site.cast(values, "bool") if truth else values)
        elif counts_along(site, operand, axis):
            results.append(site.cast(places, site.results[at][0]))
        else:
            results.append(site.node("GatherElements", operand, places, axis=axis))
    return results


def _top_k(site: Site) -> list[Value]:
    x = site.operand(0)
    values, places = _first(site, x, x.rank - 1, site.integer("k"), True)
    return [values, site.cast(places, site.results[1][0])]


REWRITES: dict[str, Rewriter] = {"stablehlo.sort": _sort, "chlo.top_k": _top_k}
"""Rewriters by operation, as in ``reductions``."""
