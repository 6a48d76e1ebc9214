"""NonMaxSuppression: image, class and number of each selected box."""

from __future__ import annotations

import numpy as np

from compiler.frontend.onnx.model import plain
from compiler.frontend.onnx.partial import Unsupported
from compiler.graph import AttrValue

from .site import FoundSite


def non_max_suppression(site: FoundSite) -> None:
    """Make a list of boxes for each image and class, and join the lists."""
    boxes, scores = site.operand(0), site.operand(1)
    shapes = site.graph.tensor(boxes).shape, site.graph.tensor(scores).shape
    number = _number_of_boxes(site, boxes, scores)
    if len(shapes[1]) != 3:
        raise Unsupported(f"scores must be images x classes x boxes; found {list(shapes[1])}")
    _, classes, count = shapes[1]
    room = _room(site, count)
    if room == 0 or 0 in shapes[1]:
        site.flow.finish([site.graph.constant(np.zeros((0, 3), np.int64))])
        return
    most = site.operand(2)
    limits, attrs = _thresholds(site)
    inputs = [boxes, scores, site.scalar(most) if site.graph.value(most) is None else "", *limits, number]
    while not inputs[-1]:
        inputs.pop()
    rows = site.internal("SelectBoxes", *inputs, room=room, **attrs)
    along = site.ints(1)
    found = site.place("Slice", rows, site.ints(0), site.ints(1), along)
    listed = site.place("Less", site.graph.constant(np.arange(room).reshape(1, -1)), found)
    places, total, _ = site.true_places(site.place("Reshape", listed, site.ints(-1)))
    numbers = site.place("Slice", rows, site.ints(1), site.ints(room + 1), along)
    box = site.place("Gather", site.place("Reshape", numbers, site.ints(-1)), places, axis=0)
    pair = site.place("Div", places, site.flow.number(room))
    columns = [site.place(op, pair, site.flow.number(classes)) for op in ("Div", "Mod")]
    parts = [site.place("Unsqueeze", part, along) for part in (*columns, box)]
    site.finish([site.place("Concat", *parts, axis=1)], [{0: total}], places=True)


def _number_of_boxes(site: FoundSite, boxes: str, scores: str) -> str:
    """Return the value with the number of boxes, if it depends on data; empty otherwise."""
    own, other = site.counts(boxes), site.counts(scores)
    for name, counts, axis in ((boxes, own, 1), (scores, other, 2)):
        wrong = [at for at in counts if at != axis]
        if wrong:
            raise site.refuse(name, wrong[0], "only the number of boxes may be such a size")
    if own.get(1, "") != other.get(2, ""):
        name, axis = (boxes, 1) if own else (scores, 2)
        raise site.refuse(name, axis, "boxes and scores must have the same")
    return own.get(1, "")


def _room(site: FoundSite, count: int) -> int:
    """Return the number of boxes of a class that can be selected at most."""
    most = site.operand(2)
    if not most:
        return 0
    known = site.graph.value(most)
    site.flow.check_one(most, "max_output_boxes_per_class")
    return count if known is None else min(max(int(known.reshape(-1)[0]), 0), count)


def _thresholds(site: FoundSite) -> tuple[list[str], dict[str, AttrValue]]:
    """Return the thresholds of overlap and score: operands if they are computed, attributes if known."""
    limits = ["", ""]
    attrs: dict[str, AttrValue] = {"center_point_box": plain(site.node, "center_point_box", 0)}
    for at, title in enumerate(("overlap", "score")):
        name = site.operand(3 + at)
        if not name:
            continue
        site.flow.check_one(name, title)
        known = site.graph.value(name)
        value = None if known is None else float(known.reshape(-1)[0])
        if title == "overlap" and value is not None and not 0 <= value <= 1:
            raise Unsupported(f"iou_threshold must be 0 to 1; found {value:g}")
        if value is None or not np.isfinite(value):
            limits[at] = name
        else:
            attrs[title] = value
    return limits, attrs
