"""Small networks whose operators become one sliced sequence."""

from __future__ import annotations

from collections.abc import Sequence

from compiler.graph import Graph
from compiler_harness import draw, graph, ints


def rows() -> Graph:
    """A product of two inputs, softmax, and numbers of each row: the tiles share the rows of all values."""
    return graph(
        [
            ("MatMul", ["x", "w"], ["a"], {}),
            ("Softmax", ["a"], ["b"], {"axis": 1}),
            ("Exp", ["b"], ["c"], {}),
            ("ReduceMax", ["c", "axes"], ["d"], {}),
            ("Sub", ["c", "d"], ["e"], {}),
            ("Softmax", ["e"], ["y"], {"axis": 1}),
        ],
        {"x": (96, 80), "w": (80, 72)},
        {"axes": ints(1)},
        opset=20,
    )


def branches() -> Graph:
    """A value with three users, one of which needs its columns."""
    return graph(
        [
            ("Softmax", ["x"], ["a"], {"axis": 2}),
            ("Transpose", ["a"], ["b"], {"perm": (0, 2, 1)}),
            ("Softmax", ["b"], ["c"], {"axis": 2}),
            ("Exp", ["a"], ["d"], {}),
            ("MatMul", ["c", "d"], ["e"], {}),
            ("Softmax", ["e"], ["y"], {"axis": 2}),
        ],
        {"x": (12, 32, 24)},
        {},
        opset=20,
    )


def two_shapes() -> Graph:
    """One input, which is both operands of a product, each time in another shape."""
    return graph(
        [
            ("Reshape", ["x", "column"], ["a"], {}),
            ("Reshape", ["x", "row"], ["b"], {}),
            ("MatMul", ["a", "b"], ["c"], {}),
            ("Softmax", ["c"], ["y"], {"axis": 1}),
        ],
        {"x": (8, 8)},
        {"column": ints(64, 1), "row": ints(1, 64)},
    )


def heads() -> Graph:
    """Heads of a matrix, one for each tile, although the columns of a head are many runs of DDR."""
    return graph(
        [
            ("Reshape", ["x", "split"], ["a"], {}),
            ("Transpose", ["a"], ["b"], {"perm": (0, 2, 1, 3)}),
            ("Softmax", ["b"], ["c"], {"axis": 3}),
            ("Transpose", ["c"], ["d"], {"perm": (0, 1, 3, 2)}),
            ("MatMul", ["c", "d"], ["e"], {}),
            ("Softmax", ["e"], ["f"], {"axis": 3}),
            ("Transpose", ["f"], ["y"], {"perm": (0, 2, 1, 3)}),
        ],
        {"x": (1, 20, 16 * 12)},
        {"split": ints(1, 20, 16, 12)},
        opset=20,
    )


def whole_operand(
    rows: int = 48, terms: int = 96, outputs: Sequence[str] = ("y",), dtype: str = "float32"
) -> Graph:
    """A product whose right operand is computed: every tile needs all of it."""
    return graph(
        [
            ("MatMul", ["x", "w"], ["a"], {}),
            ("Softmax", ["a"], ["b"], {"axis": 1}),
            ("MatMul", ["s", "b"], ["c"], {}),
            ("Softmax", ["c"], ["y"], {"axis": 1}),
        ],
        {"x": (terms, 128), "w": (128, 64), "s": (rows, terms)},
        {},
        outputs,
        dtype,
        opset=20,
    )


def uneven() -> Graph:
    """Rows that no number of tiles can share equally; in the result they are many runs of DDR."""
    return graph(
        [
            ("MatMul", ["x", "w"], ["a"], {}),
            ("Softmax", ["a"], ["b"], {"axis": 2}),
            ("Transpose", ["b"], ["y"], {"perm": (0, 2, 1)}),
        ],
        {"x": (2, 53, 80), "w": (80, 24)},
        {},
        opset=20,
    )


def stored_and_read() -> Graph:
    """A result that another operator reads, and two results that nothing reads."""
    return graph(
        [
            ("MatMul", ["x", "w"], ["a"], {}),
            ("Softmax", ["a"], ["b"], {"axis": 1}),
            ("ReduceMax", ["b", "axes"], ["y"], {}),
            ("MatMul", ["b", "v"], ["c"], {}),
            ("Softmax", ["c"], ["z"], {"axis": 1}),
        ],
        {"x": (97, 80), "w": (80, 72), "v": (72, 40)},
        {"axes": ints(1)},
        ("b", "y", "z"),
        "float16",
        opset=20,
    )


def stored_and_needed_whole(rows: int = 48, terms: int = 96) -> Graph:
    """A result that every tile needs as a whole, as the right operand of a product."""
    return whole_operand(rows, terms, ("b", "y"), "float16")


def stored_in_two_shapes() -> Graph:
    """A value that is read and a result in another shape, and a result that is many runs of DDR."""
    return graph(
        [
            ("Softmax", ["x"], ["a"], {"axis": 2}),
            ("Reshape", ["a", "flat"], ["y"], {}),
            ("Transpose", ["a"], ["b"], {"perm": (0, 2, 1)}),
            ("Softmax", ["b"], ["z"], {"axis": 2}),
            ("Reshape", ["y", "rows"], ["c"], {}),
            ("ReduceMax", ["c", "axes"], ["u"], {}),
        ],
        {"x": (4, 32, 24)},
        {"flat": ints(4 * 32 * 24), "rows": ints(128, 24), "axes": ints(1)},
        ("y", "z", "u"),
        "float16",
        opset=20,
    )


def siblings() -> Graph:
    """Results of one input: a number, and two values that tiles can each share along a different axis."""
    return graph(
        [
            ("ReduceMax", ["x", "axes"], ["u"], {}),
            ("Softmax", ["x"], ["y"], {"axis": 1}),
            ("Softmax", ["x"], ["z"], {"axis": 0}),
        ],
        {"x": (64, 48)},
        {"axes": ints(0, 1)},
        ("u", "y", "z"),
        "float16",
        opset=20,
    )


def planes(channels: int = 20, images: int = 1, size: int = 9) -> Graph:
    """A product of each position's channels, its softmax, and the sum with its operand."""
    weights = {"w": draw(channels, channels, 1, 1, scale=0.3), "v": draw(channels, channels, 1, 1, scale=0.3)}
    return graph(
        [
            ("Conv", ["x", "w"], ["a"], {}),
            ("Softmax", ["a"], ["b"], {"axis": 1}),
            ("Add", ["a", "b"], ["c"], {}),
            ("Conv", ["c", "v"], ["y"], {}),
        ],
        {"x": (images, channels, size, size + 1)},
        weights,
    )


def whole_planes() -> Graph:
    """Means of planes of channels, which tiles can share."""
    return graph(
        [
            ("Softmax", ["x"], ["a"], {"axis": 2}),
            ("MaxPool", ["a"], ["b"], {"kernel_shape": (2, 2)}),
            ("GlobalAveragePool", ["b"], ["y"], {}),
        ],
        {"x": (1, 256, 6, 8)},
        opset=20,
    )


def joined_planes() -> Graph:
    """Channels of two operands in one plane; each tile joins its own rows."""
    weights = {"w": draw(16, 16, 1, 1, scale=0.3), "v": draw(24, 24, 1, 1, scale=0.3)}
    return graph(
        [
            ("Conv", ["x", "w"], ["a"], {}),
            ("Conv", ["z", "v"], ["b"], {}),
            ("Concat", ["a", "b"], ["c"], {"axis": 1}),
            ("Sigmoid", ["c"], ["d"], {}),
            ("Softmax", ["d"], ["y"], {"axis": 1}),
        ],
        {"x": (1, 16, 16, 5), "z": (1, 24, 16, 5)},
        weights,
    )


def windows(channels: int = 20, stride: int = 1, height: int = 19) -> Graph:
    """A convolution of windows between a softmax and a normalization, and the sum with what it reads."""
    weights = {
        "w": draw(channels, 1, 5, 5, scale=0.2),
        "v": draw(channels, channels, 3, 3, scale=0.1),
        "s": draw(channels),
        "b": draw(channels),
    }
    depthwise = {"group": channels, "pads": (2, 2, 2, 2)}
    last = {"pads": (1, 1, 1, 1), "strides": (stride, stride)}
    return graph(
        [
            ("Softmax", ["x"], ["a"], {"axis": 1}),
            ("Conv", ["a", "w"], ["c"], depthwise),
            ("Transpose", ["c"], ["d"], {"perm": (0, 2, 3, 1)}),
            ("LayerNormalization", ["d", "s", "b"], ["e"], {"axis": 3}),
            ("Transpose", ["e"], ["f"], {"perm": (0, 3, 1, 2)}),
            ("Add", ["a", "f"], ["g"], {}),
            ("Conv", ["g", "v"], ["h"], last),
            ("Softmax", ["h"], ["y"], {"axis": 1}),
        ],
        {"x": (1, channels, height, 6)},
        weights,
        opset=20,
    )


def pooled_windows() -> Graph:
    """Pools whose windows stay within the image, between softmaxes."""
    return graph(
        [
            ("Softmax", ["x"], ["a"], {"axis": 1}),
            ("MaxPool", ["a"], ["b"], {"kernel_shape": (3, 3), "strides": (2, 2)}),
            ("AveragePool", ["b"], ["c"], {"kernel_shape": (2, 2)}),
            ("Softmax", ["c"], ["y"], {"axis": 1}),
        ],
        {"x": (1, 24, 41, 9)},
        opset=20,
    )
