"""The digits network as NumPy float32: the reference that the emulated chip is scored against.

digits.json has the same layers, in the same order and with the same constant names.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

Array = NDArray[np.float32]

EPSILON = np.float32(1e-5)
"""Added to the variance by both batch normalizations; digits.json has the same number."""


def windows3x3(x: Array) -> Array:
    """The 3x3 neighbourhoods of a zero-padded image: [N, C, H, W] -> [N, H, W, C * 9]."""
    n, c, h, w = x.shape
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = sliding_window_view(padded, (3, 3), axis=(2, 3))
    return windows.transpose(0, 2, 3, 1, 4, 5).reshape(n, h, w, c * 9)


def conv3x3(x: Array, weights: Array) -> Array:
    """3x3 convolution, padding 1, no bias: [N, C, H, W] with [O, C, 3, 3] -> [N, O, H, W]."""
    return (windows3x3(x) @ weights.reshape(len(weights), -1).T).transpose(0, 3, 1, 2)


def pool_windows(x: Array) -> Array:
    """The disjoint 2x2 windows of an image: [N, C, H, W] -> [N, C, H / 2, W / 2, 4]."""
    n, c, h, w = x.shape
    return x.reshape(n, c, h // 2, 2, w // 2, 2).transpose(0, 1, 2, 4, 3, 5).reshape(n, c, h // 2, w // 2, 4)


def probabilities(x: Array, weights: Mapping[str, Array]) -> Array:
    """Class probabilities [N, 10] of images ``x`` [N, 1, 8, 8] with pixels 0..1."""
    for layer in ("1", "2"):
        x = conv3x3(x, weights[f"conv{layer}.weight"])
        scale = weights[f"bn{layer}.scale"] / np.sqrt(weights[f"bn{layer}.variance"] + EPSILON)
        shift = weights[f"bn{layer}.shift"] - scale * weights[f"bn{layer}.mean"]
        x = pool_windows(np.maximum(x * scale[:, None, None] + shift[:, None, None], 0)).max(axis=-1)
    x = x.reshape(len(x), -1)
    x = np.maximum(x @ weights["fc1.weight"].T + weights["fc1.bias"], 0)
    return softmax(x @ weights["fc2.weight"].T + weights["fc2.bias"])


def softmax(logits: Array) -> Array:
    """Softmax along the last axis."""
    exponentials = np.exp(logits - logits.max(axis=-1, keepdims=True))
    shares: Array = exponentials / exponentials.sum(axis=-1, keepdims=True)
    return shares
