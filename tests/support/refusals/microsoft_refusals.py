"""Calls that the rules of the operators of com.microsoft refuse."""

from __future__ import annotations

from typing import Any

import numpy as np

from node_refusal import Refusal


def _bytes(*shape: int) -> tuple[str, tuple[int, ...]]:
    return ("uint8", shape)


def _ints(*shape: int) -> tuple[str, tuple[int, ...]]:
    return ("int32", shape)


def _of(op: str, inputs: list[Any], message: str, outputs: tuple[str, ...] = ("y",), **attrs: Any) -> Refusal:
    return Refusal(f"com.microsoft.{op}", inputs, attrs, message, outputs=outputs)


def _lstm(rule: str, found: str, **changed: Any) -> Refusal:
    """A layer of 16 units and one direction, with other operands or attributes."""
    operands: dict[str, Any] = {
        **{"X": (2, 3, 8), "W": _bytes(1, 8, 64), "R": _bytes(1, 16, 64), "B": None, "lens": None},
        **{"h": None, "c": None, "P": None, "W_scale": (1,), "W_zero": _bytes(1), "R_scale": (1,)},
        "R_zero": _bytes(1),
    }
    attrs = {name: value for name, value in changed.items() if name not in operands}
    inputs = [changed.get(name, operand) for name, operand in operands.items()]
    return _of("DynamicQuantizeLSTM", inputs, f"{rule}; found {found}", **attrs)


_LSTM_SIZES = (
    "The operands must be X [steps, batch, input], W [directions, input, 4 hidden], R [directions, hidden, "
    "4 hidden] and have sizes that agree; scales and zero points have one value for each direction, or one "
    "for each of its columns"
)
_X: tuple[int, ...] = (2, 5, 8)
_PACKED = np.zeros((4, 2, 8), np.uint8)
_SCALES = np.ones((4, 2), np.float32)
_TOTAL = np.array(5, np.int32)
_QUERY: list[Any] = [(2, 5, 32), (2, 5, 16), (2, 5, 16), None, None, _ints(2), _TOTAL]
_GROUPS = {"num_heads": 4, "kv_num_heads": 2}
_BLOCKS = {"K": 32, "N": 4, "block_size": 16}
_STATISTICS = "mean and inv_std_var are for training and not computed; omit them; found output 'm'"

MICROSOFT_REFUSALS = [
    _of("SkipLayerNormalization", [_X, _X, (8,)], _STATISTICS, ("y", "m")),
    _of(
        "SimplifiedLayerNormalization",
        [_X, (8,)],
        "inv_std_var is for training and not computed; omit it; found output 'f'",
        ("y", "f"),
    ),
    _of(
        "EmbedLayerNormalization",
        [_ints(2, 5, 1), None, (9, 8), (9, 8), None, (8,), (8,)],
        "input_ids, segment_ids and mask must be [batch, words], the embeddings matrices; "
        "found 'i0' [2, 5, 1]",
    ),
    _of(
        "EmbedLayerNormalization",
        [_ints(2, 5), None, (9, 8), (4, 8), None, (8,), (8,)],
        "position_embedding must have a row for each word, unless position_ids are given; "
        "found 4 rows for 5 words",
    ),
    _of(
        "EmbedLayerNormalization",
        [_ints(2, 5), _ints(2, 5), (9, 8), (5, 8), None, (8,), (8,)],
        "segment_ids and segment_embedding must be given together; found segment_ids alone",
    ),
    _of(
        "FusedGemm",
        [(2, 3), (3, 4)],
        "The activation takes as parameters activation_alpha and activation_beta, as many as it has; "
        "found Relu with activation_alpha",
        activation="Relu",
        activation_alpha=0.5,
    ),
    _of(
        "FusedConv",
        [(1, 4, 8, 8), (6, 4, 3, 3)],
        "activation_params must have the parameters of the activation, or be absent; found 1 for Clip",
        activation="Clip",
        activation_params=(0.5,),
    ),
    _of(
        "FusedConv",
        [(1, 4, 8, 8), (6, 4, 3, 3)],
        "attribute activation must be one of Relu, Sigmoid, Tanh, Softplus, Softsign, Elu, LeakyRelu, "
        "ThresholdedRelu, HardSigmoid, Clip; found 'Selu'",
        activation="Selu",
    ),
    _of(
        "QLinearAdd",
        [_bytes(2, 3), (2,), _bytes(), _bytes(2, 3), (), _bytes(), ()],
        "Scales and zero points must have one value each; found 'i1' [2]",
    ),
    _of(
        "QLinearSigmoid",
        [_bytes(2, 3), (), None, np.zeros((), np.float32)],
        "Scales must be finite, and scales that divide must be above 0; found 0 in 'i3'",
    ),
    _of("QLinearSigmoid", [(2, 3), (), None, ()], "input X ('i0') is float32; allowed are int8, uint8"),
    _of(
        "QLinearConcat",
        [(), _bytes(), _bytes(2, 3), (), _bytes(), _bytes(2, 3)],
        "inputs must be tensors of bytes, each followed by its scale, a float, and its zero point, a byte; "
        "found 4 operands",
        axis=1,
    ),
    _of(
        "QLinearConcat",
        [(), _bytes(), _bytes(2, 3), _bytes(), ()],
        "inputs must be tensors of bytes, each followed by its scale, a float, and its zero point, a byte; "
        "found operand 3: uint8 []",
        axis=1,
    ),
    _of(
        "QLinearAveragePool",
        [_bytes(1, 3, 4, 4), (), None, ()],
        "is computed with AveragePool: The dilated kernel must not be larger than the padded image; "
        "found a window of [5, 5] over an image of [4, 4]",
        kernel_shape=(5, 5),
    ),
    _of(
        "QGemm",
        [_bytes(2, 3), (), _bytes(), _bytes(4, 5), (), _bytes()],
        "A and B must be matrices, and the columns of A as many as the rows of B; found [2, 3] and [4, 5]",
    ),
    _of(
        "QGemm",
        [_bytes(2, 3), (), _bytes(), _bytes(3, 5), (3,), _bytes()],
        "Scales and zero points of B must have one value, or one for each column; "
        "found 'i4' [3] with B [3, 5]",
    ),
    _of(
        "DynamicQuantizeMatMul", [(), _bytes(3, 5), ()], "A must have rank at least 1 (rows); found shape []"
    ),
    _lstm(_LSTM_SIZES, "X [2, 3, 8], W [1, 8, 64], R [16, 64]", R=_bytes(16, 64)),
    _lstm(_LSTM_SIZES, "W [1, 64, 8], needed [1, 8, 64]", W=_bytes(1, 64, 8)),
    _lstm(_LSTM_SIZES, "hidden_size 8, R [1, 16, 64]", hidden_size=8),
    _lstm(_LSTM_SIZES, "W_scale [64], needed [1] or [1, 64]", W_scale=(64,)),
    _lstm(_LSTM_SIZES, "W [1, 8, 64], needed [2, 8, 64]", direction="bidirectional"),
    _lstm(
        "Known sequence_lens must lie in 0 to the number of steps",
        "[2, 3, 1] of 2",
        lens=np.array([2, 3, 1], np.int32),
    ),
    _lstm(
        "The sequence must have 1 to 1000 steps, since each has code of its own", "1001 steps", X=(1001, 3, 8)
    ),
    _lstm(
        "There must be 3 activations per direction, out of Affine, Elu, HardSigmoid, LeakyRelu, Relu, "
        "ScaledTanh, Sigmoid, Softplus, Softsign, Tanh, ThresholdedRelu",
        "Tanh with direction forward",
        activations=("Tanh",),
    ),
    _lstm(
        "Scales must be finite, and scales that divide must be above 0",
        "nan in 'i10'",
        R_scale=np.array([np.nan], np.float32),
    ),
    _of(
        "MatMulNBits",
        [(2, 32), _PACKED, _SCALES],
        "block_size must be a power of two, 16 or more; found block_size 24",
        K=32,
        N=4,
        block_size=24,
    ),
    _of(
        "MatMulNBits",
        [(2, 31), _PACKED, _SCALES],
        "The last axis of A must have K elements; found [2, 31] with K = 32",
        **_BLOCKS,
    ),
    _of(
        "MatMulNBits",
        [(2, 32), _PACKED, _SCALES],
        "B must be [N, blocks, bytes of a block] with ceil(K / block_size) blocks, scales [N, blocks]; "
        "found [4, 2, 8] and [4, 2]; expected [4, 2, 16] and [4, 2]",
        bits=8,
        **_BLOCKS,
    ),
    _of(
        "MatMulNBits",
        [(2, 32), _PACKED, _SCALES, np.zeros((4, 2), np.uint8)],
        "zero_points must be packed like B, or floats, for each of the N columns one for each block; "
        "found uint8 [4, 2]",
        **_BLOCKS,
    ),
    _of(
        "MatMulNBits",
        [(2, 32), _PACKED, _SCALES, None, _ints(32)],
        "g_idx is not supported; onnxruntime has deprecated it; found g_idx 'i4'",
        **_BLOCKS,
    ),
    _of(
        "MatMulNBits",
        [(2, 32), _bytes(4, 2, 8), _SCALES],
        "input B must be a constant, because it fixes a shape or value; found 'i1'",
        **_BLOCKS,
    ),
    _of(
        "Attention",
        [(5, 8), (8, 24)],
        "input must have rank 3 ([batch, rows, columns]); found shape [5, 8]",
        num_heads=4,
    ),
    _of(
        "RotaryEmbedding",
        [(5, 8), ("int64", (1,)), (9, 4), (9, 4)],
        "input must have rank 3 to 4 ([B, S, H D] or [B, H, S, D]); found shape [5, 8]",
    ),
    _of(
        "GroupQueryAttention",
        [(5, 32), *_QUERY[1:]],
        "query must have rank 3 ([batch, rows, columns]); found shape [5, 32]",
        **_GROUPS,
    ),
    _of(
        "Attention",
        [_X, (8, 20)],
        "The weights must be [columns of input, columns of Q, K and V], each a multiple of num_heads; "
        "found input [2, 5, 8], weights [8, 20], 4 heads",
        num_heads=4,
    ),
    _of(
        "Attention",
        [_X, (8, 24), None, None, (2, 2, 4, 3, 3)],
        "past must be [2, batch, num_heads, rows, size of a head]; K and V then have heads of one size; "
        "found [2, 2, 4, 3, 3]",
        num_heads=4,
    ),
    _of(
        "Attention",
        [_X, (8, 24), None, _ints(2, 6)],
        "mask_index must be [batch], [2 batch] (ends, then beginnings), [batch, keys] or "
        "[batch, rows, keys]; found [2, 6] with 2 x 5 x 5",
        num_heads=4,
    ),
    _of(
        "Attention",
        [_X, (8, 24), None, None, None, None, _ints(1)],
        "past_sequence_length belongs to buffers that past and present share, which are not supported; "
        "found 'i6'",
        num_heads=4,
    ),
    _of(
        "Attention", [_X, (8, 24)], "attribute do_rotary must be one of 0; found 1", num_heads=4, do_rotary=1
    ),
    _of(
        "MultiHeadAttention",
        [(2, 5, 32), (2, 7, 32)],
        "query must be [batch, rows, columns], key and value the same or [batch, num_heads, rows, size], or "
        "key both, [batch, rows, num_heads, 2, size]; or query is all three, [batch, rows, num_heads, 3, "
        "size]; found [2, 5, 32] and [2, 7, 32]",
        num_heads=4,
    ),
    _of(
        "MultiHeadAttention",
        [(2, 5, 32), (2, 7, 32), (2, 7, 32), (32,)],
        "bias must have an element for each column of Q, K and V; found [32] with 96 columns",
        num_heads=4,
    ),
    _of(
        "MultiHeadAttention",
        [(2, 5, 32), (2, 7, 32), (2, 7, 32), *[None] * 6, _ints(2, 1, 5)],
        "past_sequence_length and cache_indirection, of buffers that calls share, are not supported; "
        "found 'i9'",
        num_heads=4,
    ),
    _of(
        "MultiHeadAttention",
        [(2, 5, 32), (2, 7, 32), (2, 7, 32), None, _ints(8)],
        "key_padding_mask must be [batch], [batch, keys] or [batch, rows, keys]; found [8] with 2 x 5 x 7",
        num_heads=4,
    ),
    _of(
        "MultiHeadAttention",
        [(2, 5, 32), (2, 7, 32), (2, 7, 32)],
        "The output qk is not supported; omit it; found output 'qk'",
        ("y", "", "", "qk"),
        num_heads=4,
    ),
    _of(
        "RotaryEmbedding",
        [_X, ("int64", (2,)), (9, 4), (9, 4)],
        "position_ids must be [1], the position of the first row, or [batch, rows]; found [2] with 2 x 5",
    ),
    _of(
        "RotaryEmbedding",
        [_X, ("int64", (1,)), (9, 4), (9, 2)],
        "cos_cache and sin_cache must be matrices of one shape; found [9, 4], [9, 2]",
    ),
    _of(
        "RotaryEmbedding",
        [_X, ("int64", (1,)), (9, 2), (9, 2)],
        "num_heads must be given for rows [batch, rows, columns] if rotary_embedding_dim turns only "
        "a part of a head; found rotary_embedding_dim 4",
        rotary_embedding_dim=4,
    ),
    _of(
        "GroupQueryAttention",
        [(2, 5, 32), (2, 5, 8), (2, 5, 16), *_QUERY[3:]],
        "num_heads must be a multiple of kv_num_heads; query [batch, rows, num_heads * size], key and value "
        "[batch, rows, kv_num_heads * size], or all three side by side in query; "
        "found [2, 5, 32] and [2, 5, 8] and [2, 5, 16], 4 and 2 heads",
        **_GROUPS,
    ),
    _of(
        "GroupQueryAttention",
        [*_QUERY, *[None] * 4, (4,)],
        "head_sink, scales of quantised caches, norms of Q and K, and query_seqlens are not supported; "
        "found head_sink 'i11'",
        **_GROUPS,
    ),
    _of(
        "GroupQueryAttention",
        [*_QUERY[:3], (2, 2, 3, 8), (2, 2, 4, 8), *_QUERY[5:]],
        "past_key and past_value must both be [batch, kv_num_heads, rows, size]; "
        "found [2, 2, 3, 8] and [2, 2, 4, 8]",
        **_GROUPS,
    ),
    _of(
        "GroupQueryAttention",
        [*_QUERY[:6], np.array(9, np.int32)],
        "total_sequence_length must be one number, the rows of query and at most those of the cache before "
        "them, and seqlens_k [batch] or [batch, 1]; found 9 with 5 rows, 0 before, seqlens_k [2]",
        **_GROUPS,
    ),
    _of(
        "GroupQueryAttention",
        _QUERY,
        "cos_cache and sin_cache must be given with do_rotary 1, and be matrices of one shape; "
        "found [] and []",
        do_rotary=1,
        **_GROUPS,
    ),
    _of(
        "GroupQueryAttention",
        [*_QUERY, None, None, ("int64", (2, 4))],
        "position_ids must be [batch, rows]; found [2, 4]",
        **_GROUPS,
    ),
    _of(
        "GroupQueryAttention",
        [*_QUERY, None, None, None, (2, 3, 5, 5)],
        "attention_bias must be [batch or 1, num_heads or 1, rows, total_sequence_length]; "
        "found [2, 3, 5, 5] with 5 x 5",
        **_GROUPS,
    ),
    _of(
        "GroupQueryAttention",
        _QUERY,
        "local_window_size must be 1 or more, and needs causal 1; found 3 with causal 0",
        local_window_size=3,
        causal=0,
        **_GROUPS,
    ),
    _of(
        "GroupQueryAttention",
        _QUERY,
        "The output output_qk is not supported; omit it; found output 's'",
        ("y", "", "", "s"),
        **_GROUPS,
    ),
    _of(
        "GroupQueryAttention",
        [*_QUERY[:6], _ints()],
        "input total_sequence_length must be a constant, because it fixes a shape or value; found 'i6'",
        **_GROUPS,
    ),
]
