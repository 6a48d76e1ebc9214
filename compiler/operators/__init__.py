"""The operators that graphs may use, one record each (:class:`compiler.operators.record.Operator`).

To add an operator, add a record to the file of its family: checks, inference, the reference run and the table
in docs/operators.md follow from it.
"""

from __future__ import annotations

from compiler.graph import Node
from compiler.operators import (  # noqa: F401  (each module registers its records)
    attention_fused,
    casting,
    comparison,
    composite_deform,
    composite_integer,
    composite_linear,
    composite_math,
    composite_norm,
    composite_patches,
    composite_rearrange,
    composite_recurrent,
    composite_reduce,
    composite_sampling,
    composite_sequence,
    composite_shapes,
    composite_slicing,
    composite_windows,
    conv,
    elementwise,
    indexing,
    matmul,
    movement,
    normalization,
    pointwise,
    pool,
    quantization,
    recurrence,
    reduce,
    resize,
    rotary,
    slicing,
)
from compiler.operators.record import OPERATORS, Attribute, Call, Input, Operator, Rule, call_of

__all__ = ["OPERATORS", "Attribute", "Call", "Input", "Node", "Operator", "Rule", "call_of"]
