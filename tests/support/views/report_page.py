"""The data in the page of a run for its script."""

from __future__ import annotations

import base64
import gzip
import json
import re

import numpy as np


def embedded(page: str) -> tuple[dict, dict[str, np.ndarray]]:
    """Return the data of the page's script: the JSON part and the arrays."""
    (text,) = re.findall(r'<script id="data" type="application/octet-stream">(.*?)</script>', page)
    data = gzip.decompress(base64.b64decode(text))
    length = int.from_bytes(data[:4], "little")
    content = json.loads(data[4 : 4 + length])
    arrays = {
        name: np.frombuffer(data, "<" + a["type"], a["count"], int(a["at"]))
        for name, a in content["arrays"].items()
    }
    return content, arrays
