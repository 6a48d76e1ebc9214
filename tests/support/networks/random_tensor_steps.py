"""Steps of random graphs that move values, multiply matrices, or work on images."""

from __future__ import annotations

from typing import Any

import numpy as np

from random_graphs import GraphDraw

# --- shapes ----------------------------------------------------------------------------------------------

_ANY = "fiub"


def permuted(draw: GraphDraw) -> None:
    if x := draw.take(_ANY, least=1):
        perm = [int(axis) for axis in draw.rng.permutation(draw.values[x].ndim)]
        draw.add("Transpose", [x], exact=True, perm=perm)


def other_shape(draw: GraphDraw) -> None:
    if x := draw.take(_ANY, least=1):
        sizes = list(draw.values[x].shape)
        at = draw.whole(0, len(sizes) - 1)
        if draw.maybe(0.5) and len(sizes) > 1:
            at = min(at, len(sizes) - 2)
            sizes[at : at + 2] = [sizes[at] * sizes[at + 1]]
        else:
            parts = [part for part in range(1, sizes[at] + 1) if sizes[at] % part == 0]
            first = draw.one_of(*parts)
            sizes[at : at + 1] = [first, sizes[at] // first]
        if len(sizes) <= 5:
            if draw.maybe(0.3):
                sizes[draw.whole(0, len(sizes) - 1)] = -1
            draw.add("Reshape", [x, draw.ints(*sizes)], exact=True)


def single_axes(draw: GraphDraw) -> None:
    if x := draw.take(_ANY):
        array = draw.values[x]
        if 1 in array.shape and draw.maybe(0.5):
            draw.add("Squeeze", [x, draw.ints(array.shape.index(1))], exact=True)
        elif array.ndim < 5:
            draw.add("Unsqueeze", [x, draw.ints(draw.whole(0, array.ndim))], exact=True)


def flat(draw: GraphDraw) -> None:
    if x := draw.take(_ANY, least=1):
        draw.add("Flatten", [x], exact=True, axis=draw.whole(0, draw.values[x].ndim))


def joined(draw: GraphDraw) -> None:
    if x := draw.take(_ANY, least=1):
        array = draw.values[x]
        axis = draw.whole(0, array.ndim - 1)
        shape = list(array.shape)
        shape[axis] = draw.whole(1, 4)
        parts = [x, draw.given(shape, array.dtype), x][: draw.whole(2, 3)]
        draw.add("Concat", [str(part) for part in draw.rng.permutation(parts)], exact=True, axis=axis)


def parts_of(draw: GraphDraw) -> None:
    if x := draw.take(_ANY, least=1):
        shape = draw.values[x].shape
        axis = draw.whole(0, len(shape) - 1)
        if shape[axis] > 1:
            first = draw.whole(1, shape[axis] - 1)
            draw.add("Split", [x, draw.ints(first, shape[axis] - first)], 2, True, axis=axis)


def cut(draw: GraphDraw) -> None:
    if x := draw.take(_ANY, least=1):
        shape = draw.values[x].shape
        axis, step = draw.whole(0, len(shape) - 1), draw.one_of(1, 1, 2, 3, -1, -2)
        start, end = sorted((draw.whole(0, shape[axis]), draw.whole(0, shape[axis])))
        if step < 0:
            start, end = end, start - 1 if start > 0 else -shape[axis] - 1
        if start != end:
            draw.add("Slice", [x, *(draw.ints(number) for number in (start, end, axis, step))], exact=True)


def padded(draw: GraphDraw) -> None:
    if x := draw.take("fi", least=1):
        array = draw.values[x]
        pads = draw.ints(*(draw.whole(0, 2) for _ in range(2 * array.ndim)))
        mode = draw.one_of("constant", "constant", "edge", "reflect")
        value = [draw.constant(np.array(3, array.dtype))] if mode == "constant" and draw.maybe(0.6) else []
        draw.add("Pad", [x, pads, *value], exact=True, mode=mode)


def repeated(draw: GraphDraw) -> None:
    if x := draw.take(_ANY, least=1):
        array = draw.values[x]
        if draw.maybe(0.5):
            draw.add("Tile", [x, draw.ints(*(draw.one_of(1, 1, 2, 3) for _ in array.shape))], exact=True)
        else:
            shape = [draw.whole(1, 4) if size == 1 else size for size in (1, *array.shape)]
            draw.add("Expand", [x, draw.ints(*shape)], exact=True)


def picked(draw: GraphDraw) -> None:
    if x := draw.take(_ANY, least=1):
        shape = draw.values[x].shape
        axis = draw.whole(0, len(shape) - 1)
        count = [draw.whole(1, 3) for _ in range(draw.whole(0, 2))]
        index = draw.rng.integers(-shape[axis], shape[axis], count)
        place = draw.input(index) if draw.maybe(0.4) else draw.constant(index)
        draw.add("Gather", [x, place], exact=True, axis=axis)


def by_index(draw: GraphDraw) -> None:
    if x := draw.take("fi", least=1):
        array = draw.values[x]
        axis = draw.whole(0, array.ndim - 1)
        if draw.maybe(0.5):
            places = draw.rng.integers(0, array.shape[axis], array.shape)
            draw.add("GatherElements", [x, draw.constant(places)], exact=True, axis=axis)
        else:
            places = np.argsort(draw.rng.random(array.shape), axis)  # no place twice
            updates = draw.constant(draw.numbers(array.shape, array.dtype))
            draw.add("ScatterElements", [x, draw.constant(places), updates], exact=True, axis=axis)


def one_hot(draw: GraphDraw) -> None:
    depth = draw.whole(2, 6)
    index = draw.rng.integers(-depth, depth, [draw.whole(1, 4) for _ in range(draw.whole(1, 2))])
    values = draw.constant(draw.numbers((2,), draw.one_of(np.float32, np.int64)))
    place = draw.input(index) if draw.maybe(0.5) else draw.constant(index)
    draw.add(
        "OneHot",
        [place, draw.constant(np.array(depth, np.int64)), values],
        exact=True,
        axis=draw.one_of(-1, 0),
    )


def triangular(draw: GraphDraw) -> None:
    if x := draw.take("fi", least=2):
        operands = [x, draw.constant(np.array(draw.whole(-2, 2), np.int64))]
        draw.add("Trilu", operands, exact=True, upper=draw.whole(0, 1))


def space_and_depth(draw: GraphDraw) -> None:
    if x := draw.take("f", rank=4):
        draw.add(draw.one_of("DepthToSpace", "SpaceToDepth"), [x], exact=True, blocksize=2)


# --- products and images ---------------------------------------------------------------------------------


def multiplied(draw: GraphDraw) -> None:
    if x := draw.take("f", least=1):
        inner, columns = draw.values[x].shape[-1], draw.one_of(1, 3, 8, 33, 65)
        scale = inner**-0.5
        if draw.maybe(0.4):
            draw.add("MatMul", [x, draw.weight(inner, columns, scale=scale)])
        elif draw.values[x].ndim == 2:
            turned = draw.whole(0, 1)
            shape = (columns, inner) if turned else (inner, columns)
            bias = [draw.weight(columns)] if draw.maybe(0.5) else []
            draw.add("Gemm", [x, draw.weight(*shape, scale=scale), *bias], transB=turned)
        elif draw.values[x].ndim > 1:
            perm = [*range(draw.values[x].ndim - 2), draw.values[x].ndim - 1, draw.values[x].ndim - 2]
            if draw.add("Transpose", [x], perm=perm, exact=True):
                draw.add("MatMul", [x, list(draw.values)[-1]])


def convolved(draw: GraphDraw) -> None:
    if (x := draw.take("f", least=3)) is None:
        return
    _, channels, *image = draw.values[x].shape
    if len(image) > 3:  # docs/operators.md: images of one to three axes
        return
    kernel = [min(draw.one_of(1, 1, 2, 3), size + 1) for size in image]
    group = channels if draw.maybe(0.2) else int(np.gcd(channels, draw.one_of(1, 1, 2, 4)))
    maps, inner = group * draw.whole(1, max(1, 8 // group)), channels // group
    attrs: dict[str, Any] = {
        "kernel_shape": kernel,
        "strides": [draw.one_of(1, 1, 2) for _ in image],
        "pads": [draw.whole(0, size - 1) for size in (*kernel, *kernel)],
        "group": group,
    }
    scale = (inner * float(np.prod(kernel))) ** -0.5
    bias = [draw.weight(maps)] if draw.maybe(0.6) else []
    if draw.maybe(0.8):
        draw.add("Conv", [x, draw.weight(maps, inner, *kernel, scale=scale), *bias], **attrs)
    else:
        draw.add("ConvTranspose", [x, draw.weight(channels, maps // group, *kernel, scale=scale)], **attrs)


def pooled(draw: GraphDraw) -> None:
    if (x := draw.take("f", least=3)) is None:
        return
    image = draw.values[x].shape[2:]
    if draw.maybe(0.2):
        draw.add(draw.one_of("GlobalAveragePool", "GlobalMaxPool"), [x])
        return
    kernel = [min(draw.one_of(1, 2, 3), size) for size in image]
    op = draw.one_of("MaxPool", "MaxPool", "AveragePool")
    attrs: dict[str, Any] = {
        "kernel_shape": kernel,
        "strides": [draw.one_of(1, 2, 3) for _ in image],
        "pads": [draw.whole(0, size // 2) for size in (*kernel, *kernel)],
    }
    if op == "MaxPool":
        attrs["ceil_mode"] = draw.whole(0, 1)
    else:
        attrs["count_include_pad"] = draw.whole(0, 1)
    draw.add(op, [x], exact=op == "MaxPool", **attrs)


def resized(draw: GraphDraw) -> None:
    if x := draw.take("f", rank=4):
        batch, channels, height, width = draw.values[x].shape
        mode = draw.one_of("nearest", "linear", "cubic")
        sizes = (height * 2, width * 2) if mode == "nearest" else (draw.whole(1, 12), draw.whole(1, 12))
        more = {"nearest_mode": "floor", "coordinate_transformation_mode": "asymmetric"}
        more = more if mode == "nearest" else {}
        operands = [x, "", "", draw.ints(batch, channels, *sizes)]
        draw.add("Resize", operands, exact=mode == "nearest", mode=mode, **more)


def contraction(draw: GraphDraw) -> None:
    if x := draw.take("f", rank=3):
        inner = draw.values[x].shape[-1]
        draw.add("Einsum", [x, draw.weight(inner, 5, scale=inner**-0.5)], equation="abc,cd->dab")


def quantised(draw: GraphDraw) -> None:
    if x := draw.take("f", exact=True):
        scale = draw.constant(np.float32(2.0 ** draw.whole(-3, 0)))
        zero = draw.constant(draw.one_of(np.int8(3), np.uint8(120), np.int8(0)))
        if draw.add("QuantizeLinear", [x, scale, zero]) and draw.maybe(0.7):
            draw.add("DequantizeLinear", [list(draw.values)[-1], scale, zero], exact=True)


def recurrent_layer(draw: GraphDraw) -> None:
    if x := draw.take("f", rank=3):
        size, hidden = draw.values[x].shape[-1], draw.one_of(1, 3, 8)
        op, gates = draw.one_of(("LSTM", 4), ("GRU", 3), ("RNN", 1))
        weights = [
            draw.weight(1, gates * hidden, size, scale=size**-0.5),
            draw.weight(1, gates * hidden, hidden, scale=hidden**-0.5),
        ]
        draw.add(op, [x, *weights, draw.weight(1, 2 * gates * hidden)], hidden_size=hidden)


def size_of(draw: GraphDraw) -> None:
    if x := draw.take(_ANY, least=1):
        draw.add(draw.one_of("Shape", "Size"), [x])


def raised(draw: GraphDraw) -> None:
    if x := draw.take("f", exact=draw.dtype != "fp32"):
        draw.add("Pow", [x, draw.constant(np.float32(draw.one_of(2, 2, 3, 0)))])
