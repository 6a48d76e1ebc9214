"""Divides the rows of sequences, and experts, among chips; products are shared elsewhere.

Unlike in the sharing of products, here every operand may become whole, and a chip may take a part of any
whole value.
"""

from .experts import experts_dealt, has_experts
from .sequence import rows_dealt
from .walk import written_out

__all__ = ["experts_dealt", "has_experts", "rows_dealt", "written_out"]
