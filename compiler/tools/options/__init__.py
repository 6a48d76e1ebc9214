"""The options of tx8cc, and the combinations that are allowed.

``parser`` has all options except those of quantising, a separate group in the help, which ``choosing``
carries out.
"""

from .choosing import chosen
from .parser import check_usage, make_parser
from .taken import beside_entries, beside_kernel

__all__ = ["beside_entries", "beside_kernel", "check_usage", "chosen", "make_parser"]
