"""The options of tx8cc, and the combinations that are allowed.

``parser`` has all options except those of quantising, a separate group in the help, which ``choosing``
carries out.
"""

from .choosing import chosen
from .entries import beside_entries
from .parser import check_usage, make_parser

__all__ = ["beside_entries", "check_usage", "chosen", "make_parser"]
