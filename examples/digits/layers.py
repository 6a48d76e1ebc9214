"""Layers that can be trained: forward keeps what backward needs, backward returns the gradient of its input.

Parameters and their gradients are held in two dictionaries under the names of the weight file.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
from network import EPSILON, Array, conv3x3, pool_windows, windows3x3

MOMENTUM = np.float32(0.9)
"""Weight of the old value in the running statistics of a batch normalization."""


class Layer(ABC):
    """The base of all layers; ``state`` holds arrays that are stored but not trained."""

    def __init__(self) -> None:
        self.parameters: dict[str, Array] = {}
        self.gradients: dict[str, Array] = {}
        self.state: dict[str, Array] = {}

    @abstractmethod
    def forward(self, x: Array) -> Array:
        """Output of the layer for a batch ``x``."""

    @abstractmethod
    def backward(self, dy: Array) -> Array:
        """Gradient of the loss by the input, from the gradient by the output of the last forward."""


def he_normal(random: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Initial weights: normal, with the variance 2 / inputs per output that suits ReLU (He et al., 2015)."""
    spread = float(np.sqrt(2 / np.prod(shape[1:])))
    return (random.standard_normal(shape) * spread).astype(np.float32)


class Conv3x3(Layer):
    """3x3 convolution, padding 1, no bias, weights [O, C, 3, 3]."""

    def __init__(self, random: np.random.Generator, inputs: int, outputs: int) -> None:
        super().__init__()
        self.parameters["weight"] = he_normal(random, (outputs, inputs, 3, 3))

    def forward(self, x: Array) -> Array:
        self.input = x
        return conv3x3(x, self.parameters["weight"])

    def backward(self, dy: Array) -> Array:
        weights = self.parameters["weight"]
        rows = dy.transpose(0, 2, 3, 1).reshape(-1, len(weights))
        columns = windows3x3(self.input).reshape(len(rows), -1)
        self.gradients["weight"] = (rows.T @ columns).reshape(weights.shape)
        return conv3x3(dy, np.ascontiguousarray(weights[:, :, ::-1, ::-1].transpose(1, 0, 2, 3)))


class BatchNorm(Layer):
    """Batch normalization over N, H, W; keeps running statistics for inference."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.parameters["scale"] = np.ones(channels, np.float32)
        self.parameters["shift"] = np.zeros(channels, np.float32)
        self.state["mean"] = np.zeros(channels, np.float32)
        self.state["variance"] = np.ones(channels, np.float32)

    def forward(self, x: Array) -> Array:
        mean, variance = x.mean(axis=(0, 2, 3)), x.var(axis=(0, 2, 3))
        for name, batch in (("mean", mean), ("variance", variance)):
            self.state[name] = MOMENTUM * self.state[name] + (1 - MOMENTUM) * batch
        self.deviation = np.sqrt(variance + EPSILON)[:, None, None]
        self.normalized = (x - mean[:, None, None]) / self.deviation
        scale, shift = (self.parameters[name][:, None, None] for name in ("scale", "shift"))
        y: Array = self.normalized * scale + shift
        return y

    def backward(self, dy: Array) -> Array:
        self.gradients["scale"] = (dy * self.normalized).sum(axis=(0, 2, 3))
        self.gradients["shift"] = dy.sum(axis=(0, 2, 3))
        dn = dy * self.parameters["scale"][:, None, None]
        along = self.normalized * (dn * self.normalized).mean(axis=(0, 2, 3), keepdims=True)
        dx: Array = (dn - dn.mean(axis=(0, 2, 3), keepdims=True) - along) / self.deviation
        return dx


class Relu(Layer):
    """The larger of the input and zero."""

    def forward(self, x: Array) -> Array:
        self.positive = x > 0
        return x * self.positive

    def backward(self, dy: Array) -> Array:
        return dy * self.positive


class MaxPool2(Layer):
    """The largest of each disjoint 2x2 window; the gradient goes to the first of equal ones."""

    def forward(self, x: Array) -> Array:
        windows = pool_windows(x)
        self.winner = windows.argmax(axis=-1)
        largest: Array = windows.max(axis=-1)
        return largest

    def backward(self, dy: Array) -> Array:
        n, c, h, w = dy.shape
        spread = np.where(np.arange(4) == self.winner[..., None], dy[..., None], np.float32(0))
        return spread.reshape(n, c, h, w, 2, 2).transpose(0, 1, 2, 4, 3, 5).reshape(n, c, 2 * h, 2 * w)


class Flatten(Layer):
    """[N, C, H, W] -> [N, C * H * W]."""

    def forward(self, x: Array) -> Array:
        self.shape = x.shape
        return x.reshape(len(x), -1)

    def backward(self, dy: Array) -> Array:
        return dy.reshape(self.shape)


class Linear(Layer):
    """Fully connected layer, weights [outputs, inputs]."""

    def __init__(self, random: np.random.Generator, inputs: int, outputs: int) -> None:
        super().__init__()
        self.parameters["weight"] = he_normal(random, (outputs, inputs))
        self.parameters["bias"] = np.zeros(outputs, np.float32)

    def forward(self, x: Array) -> Array:
        self.input = x
        return x @ self.parameters["weight"].T + self.parameters["bias"]

    def backward(self, dy: Array) -> Array:
        self.gradients["weight"] = dy.T @ self.input
        self.gradients["bias"] = dy.sum(axis=0)
        return dy @ self.parameters["weight"]
