"""Calls that the rules of composite operators, gathers, casts and their like refuse."""

from __future__ import annotations

import numpy as np
from node_refusal import Refusal

MORE_REFUSALS = [
    Refusal(
        "Cast",
        [(2, 3)],
        {"to": 11},
        "to must be the number of float32, float16, bfloat16, int8, uint8, int32, int64 or bool; found to 11",
    ),
    Refusal("Mod", [(2, 3), (3,)], {}, "fmod must be 1 for floats; found fmod 0 on float32"),
    Refusal(
        "Split",
        [(2, 3), [1, 2]],
        {"axis": 0},
        "The pieces must be as many as the outputs and together as long as the axis; "
        "found pieces [1, 2], 1 outputs, axis of 2",
    ),
    Refusal(
        "Squeeze",
        [(2, 3), [0]],
        {},
        "axes must lie in [-r, r-1] and name axes of size 1; found axes [0] of [2, 3]",
    ),
    Refusal(
        "Unsqueeze",
        [(2, 3), [1, 1]],
        {},
        "axes must lie in [-r, r-1], r being the rank of the result, and must not repeat; "
        "found axes [1, 1] with r = 4",
    ),
    Refusal("EyeLike", [(2, 3, 4)], {}, "input must have rank 2 (a matrix); found shape [2, 3, 4]"),
    Refusal(
        "EyeLike",
        [(2, 3)],
        {"dtype": 11},
        "dtype must be the number of float32, float16, bfloat16, int8, uint8, int32, int64 or bool; "
        "found dtype 11",
    ),
    Refusal(
        "Range", [[0, 1], [3], [1]], {}, "Operands that give a number must have one element; found 'i0' [2]"
    ),
    Refusal("Range", [[0], [3], [0]], {}, "delta must not be 0; found delta 0"),
    Refusal(
        "Tile",
        [(2, 3), [2]],
        {},
        "repeats must have one entry, 0 or more, per axis; found repeats [2] for [2, 3]",
    ),
    Refusal("Trilu", [(3,)], {}, "input must have rank at least 2 (matrices); found shape [3]"),
    Refusal("OneHot", [("int64", (3,)), [4], (3,)], {}, "values must be two numbers; found shape [3]"),
    Refusal(
        "OneHot",
        [("int64", (3,)), [4], (2,)],
        {"axis": 2},
        "axis must lie in [-r-1, r], r being the rank of indices; found axis 2 with r = 1",
    ),
    Refusal(
        "DepthToSpace",
        [(2, 3)],
        {"blocksize": 2},
        "input must have rank 4 ([N, C, H, W]); found shape [2, 3]",
    ),
    Refusal(
        "DepthToSpace",
        [(1, 6, 2, 2)],
        {"blocksize": 2},
        "The channels must be a multiple of blocksize squared; found 6 channels, blocksize 2",
    ),
    Refusal(
        "SpaceToDepth",
        [(1, 1, 3, 4)],
        {"blocksize": 2},
        "Height and width must be multiples of blocksize; found 3x4, blocksize 2",
    ),
    Refusal(
        "CumSum",
        [(2, 3), [2]],
        {},
        "axis must be one number in [-r, r-1], r being the rank of x; found axis [2] with r = 2",
    ),
    Refusal("Clip", [(2, 3), (1,)], {}, "min and max must have one element and rank 0; found 'i1' [1]"),
    Refusal(
        "Pow",
        [("int32", (2,)), (2,)],
        {},
        "The exponent of an integer must be an integer type; found Y is float32",
    ),
    Refusal("PRelu", [(2, 3), (4, 3)], {}, "slope must broadcast to the shape of X; found [4, 3] to [2, 3]"),
    Refusal("TopK", [(2, 3), [4]], {}, "K must be 1 to the size of the axis; found K = 4 of 3"),
    Refusal(
        "InstanceNormalization",
        [(2, 3), (3,), (3,)],
        {},
        "input must have rank at least 3 ([N, C, ...]); found shape [2, 3]",
    ),
    Refusal("LRN", [(2, 3)], {"size": 3}, "X must have rank at least 3 ([N, C, ...]); found shape [2, 3]"),
    Refusal(
        "GroupNormalization",
        [(1, 3, 2), (3,), (3,)],
        {"num_groups": 2},
        "The channels must be a multiple of num_groups; found 3 channels, 2 groups",
        opset=21,
    ),
    Refusal(
        "RotaryEmbedding",
        [(2, 3), (4, 2), (4, 2)],
        {},
        "X must have rank 3 to 4 ([B, S, H D] or [B, H, S, D]); found shape [2, 3]",
        opset=23,
    ),
    Refusal(
        "RotaryEmbedding",
        [(2, 3, 8), (4, 2), (4, 2)],
        {},
        "num_heads must be given for X of rank 3; found num_heads absent",
        opset=23,
    ),
    Refusal(
        "Conv",
        [(4, 8), (6, 4, 3, 3)],
        {},
        "X must have rank 3 to 5 (1-D to 3-D convolution); found shape [4, 8]",
    ),
    Refusal(
        "MaxPool",
        [(4, 8)],
        {"kernel_shape": (2,)},
        "X must have rank 3 to 5 (1-D to 3-D pooling); found shape [4, 8]",
    ),
    Refusal(
        "ConvTranspose", [(4, 8), (4, 6, 3)], {}, "X must have rank 3 to 5 (1-D to 3-D); found shape [4, 8]"
    ),
    Refusal(
        "ConvTranspose",
        [(1, 4, 8), (5, 6, 3)],
        {},
        "Axis 0 of W must be the channels of X, a multiple of group, and W must have the rank of X; "
        "found X [1, 4, 8], W [5, 6, 3], group 1",
    ),
    Refusal(
        "GatherElements",
        [(2, 3), ("int64", (3, 3))],
        {"axis": 1},
        "indices must have the rank of data and be no larger along the other axes; "
        "found [3, 3] with data [2, 3]",
    ),
    Refusal(
        "GatherND",
        [(2, 3), ("int64", (2, 3))],
        {},
        "The last axis of indices must be 1 to r - batch_dims, and the first batch_dims axes those of data; "
        "found [2, 3] with data [2, 3], batch_dims 0",
    ),
    Refusal(
        "ScatterElements",
        [(2, 3), ("int64", (2, 2)), (2, 3)],
        {"axis": 1},
        "updates must have the shape of indices; found [2, 3] and [2, 2]",
    ),
    Refusal(
        "ScatterND",
        [(2, 3), ("int64", (1, 1)), (1, 2)],
        {},
        "updates must have one slice of data per row of indices; found [1, 2], needed [1, 3]",
    ),
    Refusal(
        "Expand", [(2, 3), [2, 4]], {}, "shape must broadcast with the shape of input; found [2, 3], [2, 4]"
    ),
    Refusal(
        "QuantizeLinear",
        [(2, 4), (2, 2)],
        {"block_size": 2},
        "block_size must be 0; found block_size 2",
        opset=21,
    ),
    Refusal(
        "Resize",
        [(1, 1, 4), None, None, [2, 3]],
        {},
        "Either scales or sizes must be given, one entry per axis of axes; found [2] entries for 3 axes",
    ),
    Refusal(
        "Resize",
        [(1, 1, 4), None, None, [1, 1, 0]],
        {},
        "The sizes before and after, and scales, must be above 0, and roi must have two entries per axis; "
        "found sizes [1, 1, 0]",
    ),
    Refusal(
        "Resize",
        [("int32", (1, 1, 4)), None, None, [1, 1, 8]],
        {"mode": "linear"},
        "mode must be nearest for integers; found mode linear on int32",
    ),
    Refusal(
        "Dropout",
        [(2, 3), None, np.array(True)],
        {},
        "training_mode must be false: only inference is supported; found training_mode true",
    ),
    Refusal(
        "BatchNormalization",
        [(2, 3), (3,), (3,), (3,), (3,)],
        {},
        "Only the first output is supported; leave the optional outputs away; found output 'z'",
        outputs=("y", "z"),
    ),
    Refusal(
        "Pad",
        [(0, 2), [1, 1, 1, 1]],
        {"mode": "edge"},
        "Only mode constant pads a tensor that has, after the cuts, no elements; "
        "found mode edge, sizes [0, 2]",
    ),
    Refusal("ArgMax", [(2, 0)], {"axis": 1}, "The axis must have an element; found shape [2, 0] with axis 1"),
]
