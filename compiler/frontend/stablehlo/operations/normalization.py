"""Normalization with known statistics, as networks in inference have it."""

from __future__ import annotations

from xdsl.dialects.builtin import FloatAttr

from compiler.frontend.onnx.partial import Unsupported
from compiler.frontend.stablehlo.site import Rewriter, Site, Value, inverse


def _batch_norm_inference(site: Site) -> Value:
    """Add a BatchNormalization, with the axis of features as axis 1."""
    x, *factors = (site.operand(at) for at in range(5))
    feature = site.integer("feature_index")
    epsilon = site.attributes.get("epsilon")
    if not 0 <= feature < x.rank or not isinstance(epsilon, FloatAttr):
        raise Unsupported(f"needs an epsilon and a feature_index below {x.rank}")
    rest = [axis for axis in range(x.rank) if axis != feature]
    order = [*rest[:1], feature, *rest[1:]]
    moved = site.transpose(x, *order)
    made = site.node("BatchNormalization", moved, *factors, epsilon=epsilon.value.data)
    return site.transpose(made, *inverse(order))


REWRITES: dict[str, Rewriter] = {"stablehlo.batch_norm_inference": _batch_norm_inference}
"""Rewriters by operation, as in ``elementwise``."""
