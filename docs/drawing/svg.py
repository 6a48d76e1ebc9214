"""A sheet of SVG for the pictures of runs, and the colours of the engines."""

from __future__ import annotations

from collections.abc import Iterable
from xml.sax.saxutils import escape

WIDTH = 600
"""Pixels: narrow enough to be read on a telephone."""
FILLS = {
    "core": "#e8b4b4",
    "RDMA": "#dbe9f6",
    "NE": "#f9e3b4",
    "CT": "#fbd3a6",
    "TDMA": "#d9ead3",
    "WDMA": "#cfd8e8",
    "DTE": "#e4d7f0",
}
EDGES = {
    "core": "#a55050",
    "RDMA": "#3b6ea5",
    "NE": "#c8a24a",
    "CT": "#b9722c",
    "TDMA": "#6a9a5b",
    "WDMA": "#4a5f8a",
    "DTE": "#76559a",
}
GREY, DARK = "#666666", "#1a1a1a"


class Sheet:
    """Elements of a picture, added one after the other; ``text`` is the file."""

    def __init__(self, title: str, width: int = WIDTH) -> None:
        self._title, self._width, self._parts = title, width, list[str]()

    def add(self, *elements: str) -> None:
        """Add elements as they are."""
        self._parts += elements

    def box(self, x: float, y: float, width: float, height: float, fill: str, edge: str = "none") -> None:
        """Add a rectangle."""
        place = f'x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}"'
        self.add(f'<rect {place} fill="{fill}" stroke="{edge}"/>')

    def write(
        self, x: float, y: float, text: str, *, anchor: str = "start", size: int = 12, fill: str = DARK
    ) -> None:
        """Add a line of text. A text that begins with ``*`` is bold."""
        weight = ' font-weight="bold"' if text.startswith("*") else ""
        place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" fill="{fill}"'
        self.add(f"<text {place}{weight}>{escape(text.removeprefix('*'))}</text>")

    def arrow(self, points: Iterable[tuple[float, float]], colour: str, width: float = 1.5) -> None:
        """Add a line through points, with a head at its end."""
        path = "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
        self.add(
            f'<path d="M{path}" fill="none" stroke="{colour}" stroke-width="{width}" '
            f'marker-end="url(#{self._head(colour)})"/>'
        )

    def _head(self, colour: str) -> str:
        """The name of the arrow head of a colour, which is defined where it is used first."""
        name = f"head{colour.removeprefix('#')}"
        head = (
            f'<marker id="{name}" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="6" markerHeight="6" '
            f'orient="auto"><path d="M0 0L8 4L0 8Z" fill="{colour}"/></marker>'
        )
        if head not in self._parts:
            self.add(head)
        return name

    def text(self, height: float) -> str:
        """The picture as a file of this height."""
        size = f'viewBox="0 0 {self._width} {height:.0f}"'
        head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="12">'
        ground = f'<rect width="{self._width}" height="{height:.0f}" fill="#ffffff"/>'
        return "\n".join([head, f"<title>{escape(self._title)}</title>", ground, *self._parts, "</svg>\n"])
