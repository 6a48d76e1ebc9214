"""Dynamic sizes: declared ranges, formulas of extents, and the integers ``Size``.

Code is generated with integers of class ``Size`` in place of extents that depend on the run (``size.py``).
"""

from __future__ import annotations

from .conditions import Domain, always, ever
from .size import Size, chosen, dimension, here, largest, least, most

__all__ = ["Domain", "Size", "always", "chosen", "dimension", "ever", "here", "largest", "least", "most"]
