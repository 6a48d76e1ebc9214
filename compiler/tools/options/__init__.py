"""The options of tx8cc, and which of them go together.

``parser`` has all but those of quantising, which are a group of their own in the help; ``choosing`` does what
these say.
"""

from .choosing import chosen
from .entries import beside_entries
from .parser import check_usage, make_parser

__all__ = ["beside_entries", "check_usage", "chosen", "make_parser"]
