"""Calls that the rules of composite operators, gathers, casts and their like refuse."""

from __future__ import annotations

import numpy as np

from node_refusal import Refusal, W, X

MORE_REFUSALS = [
    Refusal(
        "Cast",
        [(2, 3)],
        {"to": 11},
        "to must be the number of float32, float16, bfloat16, int8, uint8, int16, uint16, int32, uint32, "
        "int64 or bool; found to 11",
    ),
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
        "dtype must be the number of float32, float16, bfloat16, int8, uint8, int16, uint16, int32, uint32, "
        "int64 or bool; found dtype 11",
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
        "GatherElements",
        [(2, 3), np.array([[1, 0, 2]])],
        {},
        "Indices that are known when compiling must lie in [-s, s-1], s being the size of data along axis; "
        "found index 2 with s = 2",
    ),
    Refusal(
        "Gather",
        [(2, 3), [2, -3, -4]],
        {"axis": 1},
        "Indices that are known when compiling must lie in [-s, s-1], s being the size of data along axis; "
        "found index -4 with s = 3",
    ),
    Refusal(
        "GatherND",
        [(2, 3), ("int64", (2, 3))],
        {},
        "The last axis of indices must be 1 to r - batch_dims, and the first batch_dims axes those of data; "
        "found [2, 3] with data [2, 3], batch_dims 0",
    ),
    Refusal(
        "GatherND",
        [(2, 5, 3), np.array([[[0, 2]], [[4, -4]]])],
        {"batch_dims": 1},
        "Indices that are known when compiling must lie in [-s, s-1], s being the size of their axis; "
        "found index -4 with s = 3 in row 1: [4, -4]",
    ),
    Refusal(
        "ScatterElements",
        [(2, 3), np.array([[-3, 0, 1]]), (1, 3)],
        {},
        "Indices that are known when compiling must lie in [-s, s-1], s being the size of data along axis; "
        "found index -3 with s = 2",
    ),
    Refusal(
        "ScatterND",
        [(2, 3), np.array([[0, 1], [2, 1]]), (2,)],
        {},
        "Indices that are known when compiling must lie in [-s, s-1], s being the size of their axis; "
        "found index 2 with s = 2 in row 1: [2, 1]",
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
        "For integers mode must be nearest, or for bytes linear without antialias; found mode linear on "
        "int32",
    ),
    Refusal(
        "Dropout",
        [(2, 3), None, np.array(True)],
        {},
        "training_mode must be false, or ratio 0: dropped elements are random otherwise; "
        "found training_mode true, ratio 0.5",
    ),
    Refusal(
        "BatchNormalization",
        [(2, 3), (3,), (3,), (3,), (3,)],
        {},
        "Outputs after the first need training_mode 1; found output 'z'",
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
    Refusal(
        "BitCast",
        [(2, 3)],
        {"to": 7},
        "The elements before and after must have the same number of bits; found float32 to int64",
        opset=26,
    ),
    Refusal(
        "Range",
        [np.array(0.0, np.float32), np.array(np.inf, np.float32), np.array(1.0, np.float32)],
        {},
        "start, limit and delta must be finite; found [0.0, inf, 1.0]",
    ),
    Refusal(
        "GridSample", [(1, 4), (1, 4)], {}, "X must have rank 3 to 5 ([N, C, *image]); found shape [1, 4]"
    ),
    Refusal(
        "GridSample",
        [(1, 1, 4, 4), (1, 2, 2, 3)],
        {},
        "grid must be [N, *output, r - 2], r being the rank of X [N, C, *image]; found grid [1, 2, 2, "
        "3] for X [1, 1, 4, 4]",
    ),
    Refusal(
        "GridSample",
        [(1, 1, 2, 4, 4), (1, 2, 2, 2, 3)],
        {"mode": "cubic"},
        "mode cubic needs images of one or two axes; found X [1, 1, 2, 4, 4]",
    ),
    Refusal(
        "GridSample",
        [(1, 1, 5000, 5000), (1, 2, 2, 2)],
        {},
        "The spatial axes of X must have 1 to 2**24 positions together; found X [1, 1, 5000, 5000]",
    ),
    Refusal(
        "RoiAlign",
        [(1, 4, 4), (1, 4), ("int64", (1,))],
        {},
        "X must have rank 4 ([N, C, H, W]); found shape [1, 4, 4]",
    ),
    Refusal(
        "RoiAlign",
        [X, (2, 4), ("int64", (1,))],
        {},
        "rois must be [R, 4] and batch_indices [R]; found rois [2, 4], batch_indices [1]",
    ),
    Refusal(
        "RoiAlign",
        [(1, 2, 64, 64), (2, 4), ("int64", (2,))],
        {"mode": "max", "output_height": 7, "output_width": 7},
        "With mode max and sampling_ratio 0, regions times bins times (2 H + 4) (2 W + 4) must be at most "
        "2**20; found 1707552 for 2 regions of X [1, 2, 64, 64]",
    ),
    Refusal(
        "DeformConv",
        [X, W, (1, 18, 5, 6)],
        {},
        "offset must be [N, 2 offset_group taps, *output], mask [N, offset_group taps, *output], B "
        "one element per map, and offset_group must divide the channels; found offset [1, 18, 5, 6], "
        "needed [1, 18, 6, 6]",
    ),
    Refusal(
        "QuantizeLinear",
        [(2, 4), (3,)],
        {},
        "The scale must be one value, one per element of axis, or with block_size one per block of "
        "axis, and the zero point must have its shape; found [3] for [2, 4], axis 1, block_size 0",
    ),
    Refusal(
        "QuantizeLinear",
        [(2, 4), np.zeros((), np.float32)],
        {},
        "Scales must be finite, and scales that divide must be above 0; found 0 in 'i1'",
    ),
    Refusal(
        "QuantizeLinear",
        [(2, 4), np.array([0.5, 1, -2, 0], np.float32)],
        {},
        "Scales must be finite, and scales that divide must be above 0; found -2 in 'i1'",
    ),
    Refusal(
        "DequantizeLinear",
        [("int8", (2, 4)), np.array(np.nan, np.float32)],
        {},
        "Scales must be finite, and scales that divide must be above 0; found nan in 'i1'",
    ),
    Refusal(
        "QLinearMatMul",
        [
            *(("uint8", (2, 3)), np.array(1, np.float32), ("uint8", ())),
            *(("uint8", (3, 2)), np.array(1, np.float32), ("uint8", ())),
            *(np.zeros((), np.float32), ("uint8", ())),
        ],
        {},
        "Scales must be finite, and scales that divide must be above 0; found 0 in 'i6'",
    ),
    Refusal(
        "QLinearConv",
        [
            *(("uint8", (1, 1, 4, 4)), np.array(np.inf, np.float32), ("uint8", ())),
            *(("uint8", (1, 1, 2, 2)), np.array(1, np.float32), ("uint8", ())),
            *(np.array(1, np.float32), ("uint8", ())),
        ],
        {},
        "Scales must be finite, and scales that divide must be above 0; found inf in 'i1'",
    ),
    Refusal(
        "QLinearMatMul",
        [("uint8", (2, 3)), (), ("uint8", ()), ("uint8", (2, 3)), (), ("uint8", ()), (), ("uint8", ())],
        {},
        "The last axis of a and the last but one of b must agree, and the others broadcast; found [2, "
        "3] and [2, 3]",
    ),
    Refusal(
        "ConvInteger",
        [("uint8", (1, 1, 20, 20)), ("uint8", (1, 1, 17, 17))],
        {},
        "The kernel must have at most 256 positions; found W [1, 1, 17, 17]",
    ),
    Refusal(
        "Einsum",
        [(2, 3), (4, 5)],
        {"equation": "ij,jk->ik"},
        "equation must have one term of letters and at most one ellipsis per operand, a label per "
        "axis, sizes that agree, and a result of labels that occur; found label 'j' of size 3 and 4 "
        "in 'ij,jk->ik'",
    ),
    Refusal(
        "Einsum",
        [(2, 3)],
        {"equation": "ij,jk"},
        "equation must have one term of letters and at most one ellipsis per operand, a label per "
        "axis, sizes that agree, and a result of labels that occur; found 2 terms for 1 operands in "
        "'ij,jk'",
    ),
    Refusal(
        "Einsum",
        [(2, 3)],
        {"equation": "ijk"},
        "equation must have one term of letters and at most one ellipsis per operand, a label per "
        "axis, sizes that agree, and a result of labels that occur; found term 'ijk' for an operand "
        "of rank 2 in 'ijk'",
    ),
    Refusal(
        "Einsum",
        [(2, 3)],
        {"equation": "i1"},
        "equation must have one term of letters and at most one ellipsis per operand, a label per "
        "axis, sizes that agree, and a result of labels that occur; found term 'i1' in 'i1'",
    ),
    Refusal(
        "Einsum",
        [(2, 3)],
        {"equation": "ij->k"},
        "equation must have one term of letters and at most one ellipsis per operand, a label per "
        "axis, sizes that agree, and a result of labels that occur; found result 'k' in 'ij->k'",
    ),
    Refusal(
        "DFT",
        [(2, 7, 3)],
        {},
        "The operand must have rank 2 or more, and 1 or 2 elements on its last axis, the parts of numbers; "
        "found shape [2, 7, 3]",
    ),
    Refusal(
        "DFT",
        [(2, 7, 1), None, np.array(2)],
        {},
        "axis must be one number in [-r, -2] or [0, r-2], r being the rank of the operand; found axis [2] "
        "with r = 3",
    ),
    Refusal(
        "DFT",
        [(2, 1, 2)],
        {"inverse": 1, "onesided": 1},
        "dft_length must be one number above 0, and without it the operand of a onesided inverse have two "
        "elements; found 0",
    ),
    Refusal(
        "DFT",
        [(2, 7, 2)],
        {"onesided": 1},
        "With onesided 1, the operand must be real, of an inverse complex; found 2 parts",
    ),
    Refusal(
        "DFT",
        [(1, 7, 1), np.array(1 << 24)],
        {},
        "The length times the elements that are read, with their parts, must be at most 2**26; found "
        "234881024 for a length of 16777216",
    ),
    Refusal(
        "STFT",
        [(1, 60, 2), np.array(8), (20,)],
        {},
        "signal must be [batch, samples, 1], or [batch, samples, 2] with onesided 0; found [1, 60, 2]",
    ),
    Refusal(
        "STFT",
        [(1, 60, 1), np.array(8), (20,), np.array(16)],
        {},
        "frame_step and frame_length must be one number above 0, the frame no longer than the signal, and "
        "the window as long as the frame; found a window [20] for frames of 16",
    ),
    Refusal(
        "STFT",
        [(1, 20000, 1), np.array(8), (16000,)],
        {},
        "The length of a frame times the numbers of its transform, with their parts, must be at most 2**26; "
        "found 256032000 for frames of 16000",
    ),
    Refusal("Det", [(3,)], {}, "X must have rank at least 2 (matrices); found shape [3]"),
    Refusal("Det", [(2, 3)], {}, "The last two axes must be equal, 1 to 64; found shape [2, 3]"),
    Refusal(
        "LRN",
        [(1, 10000, 2)],
        {"size": 3},
        "There must be at most 8192 channels: which ones are neighbours is a matrix; found X [1, 10000, 2]",
    ),
    Refusal(
        "MaxUnpool",
        [(1, 1, 2, 2), ("int64", (1, 1, 2, 1))],
        {"kernel_shape": (2, 2)},
        "I must have the shape of X; found [1, 1, 2, 1] and [1, 1, 2, 2]",
    ),
    Refusal(
        "MaxUnpool",
        [(1, 1, 2, 2), ("int64", (1, 1, 2, 2)), [1, 1, 3, 2]],
        {"kernel_shape": (2, 2)},
        "The image must have elements, and output_shape, if given, must be no smaller on any axis; "
        "found image [1, 1, 3, 3], output_shape [1, 1, 3, 2]",
    ),
    Refusal(
        "Col2Im",
        [(1, 2000, 1), [50, 40], [50, 40]],
        {},
        "A block must have at most 1024 elements; found block_shape [50, 40]",
    ),
    Refusal(
        "Col2Im",
        [(1, 5, 4), [5, 5], [1, 5]],
        {},
        "input must be [N, C times the block's size, positions], for 1-D to 3-D images whose blocks, "
        "with strides, dilations and pads, have as many positions; found input [1, 5, 4], image_shape "
        "[5, 5], block_shape [1, 5], positions [5, 1]",
    ),
    Refusal(
        "RNN",
        [(2, 1, 3), (1, 4, 2), (1, 4, 4)],
        {},
        "The operands must be X [steps, batch, input], W [directions, gates hidden, input], R "
        "[directions, gates hidden, hidden] and have sizes that agree; found W [1, 4, 2], needed [1, "
        "4, 3]",
    ),
    Refusal(
        "LSTM",
        [(2, 1, 3), (1, 16, 3), (1, 16, 4), None, ("int32", (2,))],
        {},
        "The operands must be X [steps, batch, input], W [directions, gates hidden, input], R "
        "[directions, gates hidden, hidden] and have sizes that agree; found sequence_lens [2], "
        "needed [1]",
    ),
    Refusal(
        "GRU",
        [(2, 1, 3), (1, 12, 3), (1, 12, 4)],
        {"hidden_size": 5},
        "The operands must be X [steps, batch, input], W [directions, gates hidden, input], R "
        "[directions, gates hidden, hidden] and have sizes that agree; found hidden_size 5, R [1, 12, "
        "4]",
    ),
    Refusal(
        "RNN",
        [(1001, 1, 3), (1, 4, 3), (1, 4, 4)],
        {},
        "The sequence must have 1 to 1000 steps, since each has code of its own, or more in a layer of 16 "
        "to 256 units with constant R and nothing optional but bias and states; found 1001 steps",
    ),
    Refusal(
        "RNN",
        [(2, 1, 3), (1, 4, 3), (1, 4, 4)],
        {"activations": ("Cosh",)},
        "There must be 1 activation per direction, out of Affine, Elu, HardSigmoid, LeakyRelu, Relu, "
        "ScaledTanh, Sigmoid, Softplus, Softsign, Tanh, ThresholdedRelu; found Cosh with direction "
        "forward",
    ),
    Refusal(
        "GRU",
        [(2, 1, 3), (1, 12, 3), (1, 12, 4)],
        {"activations": ("Tanh",)},
        "There must be 2 activations per direction, out of Affine, Elu, HardSigmoid, LeakyRelu, Relu, "
        "ScaledTanh, Sigmoid, Softplus, Softsign, Tanh, ThresholdedRelu; found Tanh with direction "
        "forward",
    ),
    Refusal(
        "LSTM",
        [(2, 1, 3), (1, 16, 3), (1, 16, 4)],
        {"activations": ("Tanh", "Tanh")},
        "There must be 3 activations per direction, out of Affine, Elu, HardSigmoid, LeakyRelu, Relu, "
        "ScaledTanh, Sigmoid, Softplus, Softsign, Tanh, ThresholdedRelu; found Tanh, Tanh with "
        "direction forward",
    ),
    Refusal(
        "ReverseSequence",
        [(4,), ("int64", (4,))],
        {},
        "input must have rank at least 2 ([time, batch, ...]); found shape [4]",
    ),
    Refusal(
        "ReverseSequence",
        [(4, 2), ("int64", (4,))],
        {},
        "batch_axis and time_axis must be 0 and 1 or 1 and 0, and sequence_lens have one length per "
        "batch; found sequence_lens [4] for [4, 2]",
    ),
    Refusal(
        "ReverseSequence",
        [(4, 2), [5, 1]],
        {},
        "Known lengths must lie in 0 to the size of time_axis; found [5, 1] of 4",
    ),
    Refusal(
        "TensorScatter",
        [(4,), (2,)],
        {},
        "past_cache must have rank at least 2 ([batch, ...]); found shape [4]",
        opset=24,
    ),
    Refusal(
        "TensorScatter",
        [(1, 4, 2), (1, 5, 2)],
        {},
        "axis must not be the batch, update no longer than past_cache along it and equal along the "
        "others, and write_indices one number per batch; found past_cache [1, 4, 2], update [1, 5, "
        "2], axis -2",
        opset=24,
    ),
    Refusal(
        "Resize",
        [(1, 1, 4, 4), None, None, [1, 1, 100000000, 4]],
        {"mode": "linear"},
        "Along an axis that is interpolated, old size times new size must be at most 2**26, and "
        "scales with antialias at least 1/1024; found axis 2 from 4 to 100000000, scale 2.5e+07",
    ),
    Refusal(
        "Tile",
        [(2, 3), [10**9, 1]],
        {},
        "is computed with Expand: its result takes 24000000000 bytes; at most 4294967296 are supported",
    ),
    Refusal(
        "OneHot",
        [("int64", (2,)), np.array(10**10), (2,)],
        {},
        "its result takes 80000000000 bytes; at most 4294967296 are supported",
    ),
    Refusal(
        "Attention",
        [(1, 2, 3, 4), (1, 3, 8), (1, 3, 8)],
        {},
        "Q, K and V must all be [batch, heads, rows, channels], or all [batch, rows, channels]; "
        "found [[1, 2, 3, 4], [1, 3, 8], [1, 3, 8]]",
        opset=23,
    ),
    Refusal(
        "Attention",
        [(1, 3, 8), (1, 3, 8), (1, 3, 8)],
        {"q_num_heads": 2},
        "With operands of rank 3, q_num_heads and kv_num_heads must be given, and divide the channels; "
        "found kv_num_heads None with K [1, 3, 8]",
        opset=23,
    ),
    Refusal(
        "Attention",
        [(1, 3, 8), (1, 3, 8), (1, 3, 8)],
        {"q_num_heads": 3, "kv_num_heads": 2},
        "With operands of rank 3, q_num_heads and kv_num_heads must be given, and divide the channels; "
        "found q_num_heads 3 with Q [1, 3, 8]",
        opset=23,
    ),
    Refusal(
        "Attention",
        [(1, 3, 5, 8), (1, 2, 7, 8), (1, 2, 7, 8)],
        {},
        "Q must have the heads of K and V or a multiple, its batch, the channels of K; V has the rows of K; "
        "found [1, 3, 5, 8], [1, 2, 7, 8] and [1, 2, 7, 8]",
        opset=23,
    ),
    Refusal(
        "Attention",
        [(1, 2, 5, 8), (1, 2, 7, 8), (1, 2, 7, 8), None, (1, 2, 3, 8)],
        {},
        "past_key and past_value must be given together, [batch, heads, rows, channels] as K and V; "
        "found [1, 2, 3, 8] and []",
        opset=23,
    ),
    Refusal(
        "Attention",
        [(1, 2, 5, 8), (1, 2, 7, 8), (1, 2, 7, 8), None, (1, 2, 3, 8), (1, 2, 4, 8)],
        {},
        "past_key and past_value must be given together, [batch, heads, rows, channels] as K and V; "
        "found [1, 2, 3, 8] and [1, 2, 4, 8]",
        opset=23,
    ),
    Refusal(
        "Attention",
        [(2, 2, 5, 8), (2, 2, 7, 8), (2, 2, 7, 8), None, None, None, ("int64", (3,))],
        {},
        "nonpad_kv_seqlen must have a number for each of the batch, and excludes past_key and past_value; "
        "found shape [3]",
        opset=24,
    ),
    Refusal(
        "Attention",
        [(1, 2, 5, 8), (1, 2, 7, 8), (1, 2, 7, 8), (5, 9)],
        {},
        "attn_mask must broadcast to [batch, heads, queries, keys]; its last axis may be shorter; "
        "found [5, 9] with [1, 2, 5, 7]",
        opset=23,
    ),
]
