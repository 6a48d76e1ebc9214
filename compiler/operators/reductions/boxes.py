"""The boxes that non-maximum suppression selects, for each image and class."""

from __future__ import annotations

import numpy as np

from compiler.graph import Array, Shape
from compiler.operators.record import Attribute, Call, Input, Operator, Output, register, rule
from compiler.operators.types import FLOAT, INT64
from tx8isa.numbers.division import round_up

GRAIN = 8
"""Numbers of int64 in a line of memory: each row of the result begins a line."""


@rule
def boxes_and_scores_fit(call: Call) -> str | None:
    """boxes must be images x boxes x 4, and scores images x classes x boxes"""
    boxes, scores = call.shape(0), call.shape(1)
    fits = len(boxes) == len(scores) == 3 and boxes[2] == 4 and (boxes[0], boxes[1]) == (scores[0], scores[2])
    return None if fits else f"{list(boxes)} and {list(scores)}"


def row_elements(room: int) -> int:
    """Return the elements of a row of the result: the count of selected boxes, their numbers, and padding."""
    return round_up(room + 1, GRAIN)


def _shapes(call: Call) -> tuple[Shape, ...]:
    images, classes, _ = call.shape(1)
    return ((images * classes, row_elements(call.integer("room"))),)


def _corners(box: Array, center: bool) -> tuple[np.float32, np.float32, np.float32, np.float32]:
    """Return the least and largest x, and the least and largest y."""
    a, b, c, d = (np.float32(side) for side in box)
    if center:
        two = np.float32(2)
        return a - c / two, a + c / two, b - d / two, b + d / two
    return min(b, d), max(b, d), min(a, c), max(a, c)


def _overlap(one: Array, other: Array, center: bool, limit: np.float32) -> bool:
    """Return True if the intersection of two boxes exceeds a part of their union, in binary32."""
    a, b = _corners(one, center), _corners(other, center)
    width = min(a[1], b[1]) - max(a[0], b[0])
    height = min(a[3], b[3]) - max(a[2], b[2])
    if width <= 0 or height <= 0:
        return False
    inside = width * height
    areas = [(box[1] - box[0]) * (box[3] - box[2]) for box in (a, b)]
    union = areas[0] + areas[1] - inside
    if inside <= 0 or min(areas) <= 0 or union <= 0:
        return False
    return bool(inside / union > limit)


def _select(call: Call, boxes: Array, scores: Array, *more: Array | None) -> tuple[Array, ...]:
    most, overlap, score, number = [*more, None, None, None, None][:4]
    limit = np.float32(call.number("overlap") if overlap is None else overlap.reshape(()))
    has_least = score is not None or "score" in call.attrs
    least = np.float32(0 if not has_least else call.number("score") if score is None else score.reshape(()))
    wanted = (
        call.integer("room") if most is None else min(max(int(most.reshape(())), 0), call.integer("room"))
    )
    valid = call.shape(0)[1] if number is None else int(number.reshape(()))
    center, classes = bool(call.integer("center_point_box")), call.shape(1)[1]
    boxes, scores = boxes.astype(np.float32), scores.astype(np.float32)
    rows = np.zeros(_shapes(call)[0], np.int64)
    for pair, row in enumerate(rows):
        image, own = pair // classes, scores[pair // classes, pair % classes]
        ranked = [at for at in np.lexsort((np.arange(len(own)), -own)) if at < valid]
        if has_least:
            ranked = [at for at in ranked if own[at] > least]
        chosen: list[int] = []
        for at in ranked:
            if len(chosen) == wanted:
                break
            if not any(_overlap(boxes[image, at], boxes[image, k], center, limit) for k in chosen):
                chosen.append(at)
        row[0], row[1 : len(chosen) + 1] = len(chosen), chosen
    return (rows,)


register(
    Operator(
        name="SelectBoxes",
        since=1,
        summary="Boxes that non-maximum suppression selects for each image and class: count and numbers",
        inputs=(
            Input("boxes", FLOAT),
            Input("scores", FLOAT),
            Input("most", INT64, optional=True),  # the most boxes of a class
            Input("overlap", FLOAT, optional=True),
            Input("score", FLOAT, optional=True),
            Input("number", INT64, optional=True),  # numbers of existing boxes; the others are padding
        ),
        outputs=(Output("selected", INT64),),
        attributes=(
            Attribute("room", "int", required=True, minimum=1),  # the most boxes of a class
            Attribute("center_point_box", "int", 0, allowed=(0, 1)),
            Attribute("overlap", "float", 0.0),  # unless it is an operand
            Attribute("score", "float"),  # if neither an attribute nor an operand, every box is a candidate
        ),
        rules=(boxes_and_scores_fit,),
        shapes=_shapes,
        reference=_select,
        internal=True,
    )
)
