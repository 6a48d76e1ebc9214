"""Where the tools keep what they need not compute twice."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder(kind: str) -> Path:
    """The folder named ``kind`` in ``$TX8_CACHE_DIR`` or, without that, in the user's cache folder.

    It may not exist yet.
    """
    from platformdirs import user_cache_dir  # most programs are assembled without it

    return Path(os.environ.get("TX8_CACHE_DIR") or user_cache_dir("tx8")) / kind
