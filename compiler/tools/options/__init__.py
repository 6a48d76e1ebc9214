"""The options of tx8cc, and the combinations that are allowed.

``parser`` has all options except those of quantising, a separate group in the help, which ``choosing``
carries out.
"""

from .choosing import chosen
from .parser import make_parser
from .taken import check_entries, check_kernel
from .usage import check_usage

__all__ = ["check_entries", "check_kernel", "check_usage", "chosen", "make_parser"]
