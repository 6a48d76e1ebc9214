"""What chips have parts of that are no parts of products: rows of sequences, and experts.

Unlike where products are shared, every operand may become whole here, and of what is whole a chip may take a part.
"""

from .experts import experts_dealt
from .sequence import rows_dealt
from .walk import written_out

__all__ = ["experts_dealt", "rows_dealt", "written_out"]
