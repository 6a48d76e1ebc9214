"""Draws the flow of data through a kernel as a row of boxes with arrows, in SVG."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

_LETTER, _GAP, _HEIGHT, _MARGIN = 8, 28, 40, 12
_HEAD = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
)
_BOX = '<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="6" fill="{fill}" stroke="#446"/>'
_TEXT = '<text x="{x}" y="{y}" text-anchor="middle">{text}</text>'
_ARROW = '<path d="M{x} {y}h{length}" stroke="#446" stroke-width="2" marker-end="url(#head)"/>'
_MARKER = (
    '<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
    'orient="auto">'
    '<path d="M0 0l8 4-8 4z" fill="#446"/></marker></defs>'
)
_STEP, _PLACE = "#dbe7ff", "#fff2cc"
_STEPS = ("rdma", "wdma", "ct.", "ne.", "dte.", "ncc.", "core", "Rdma", "Wdma", "gemm", "strided")


def flow_picture(stages: Sequence[str]) -> str:
    """Return a picture of stages: instructions are blue, places of data yellow."""
    height = _HEIGHT + 2 * _MARGIN
    parts, at = [_MARKER], _MARGIN
    for number, stage in enumerate(stages):
        width = _LETTER * len(stage) + 2 * _MARGIN
        fill = _STEP if stage.startswith(_STEPS) else _PLACE
        if number:
            parts.append(_ARROW.format(x=at, y=height // 2, length=_GAP))
            at += _GAP
        parts.append(_BOX.format(x=at, y=_MARGIN, width=width, height=_HEIGHT, fill=fill))
        parts.append(_TEXT.format(x=at + width // 2, y=height // 2 + 5, text=escape(stage)))
        at += width
    head = _HEAD.format(width=at + _MARGIN, height=height)
    return f'{head} font-family="sans-serif" font-size="14">' + "".join(parts) + "</svg>\n"
