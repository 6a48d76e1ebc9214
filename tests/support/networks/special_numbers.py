"""The operators whose results for NaN and infinities differ from ONNX, by docs/numbers.md."""

from __future__ import annotations

import re
from functools import cache

from paths import ROOT


@cache
def listed(single: bool = False) -> set[str]:
    """The operators of the table; with ``single`` also those of its last row, which differ only in FP32."""
    page = (ROOT / "docs" / "numbers.md").read_text(encoding="utf-8")
    section = page.partition("## NaN and infinities")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| ([A-Z][^|]*) \| [^|]* \| [^|]* \|$", section, re.MULTILINE)
    return set(re.findall(r"\b[A-Z][A-Za-z0-9]+\b", " ".join(rows if single else rows[:-1])))
