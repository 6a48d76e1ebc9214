"""The options of tx8cc, and which of them go together.

``parser`` has all but those of quantising, which are a group of their own in the help; ``choosing`` does what
these say.
"""

from .choosing import chosen
from .parser import check_usage, make_parser

__all__ = ["check_usage", "chosen", "make_parser"]
