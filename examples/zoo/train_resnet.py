"""Trains the small ResNet of the zoo on scikit-learn's handwritten digits and writes resnet.safetensors.

    python examples/zoo/train_resnet.py [FILE]

The data, their division, the optimiser and the layers are those of examples/digits. It needs NumPy,
scikit-learn and safetensors, and takes about two minutes on one core. Every random choice is seeded.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "digits"))

from layers import BatchNorm, Conv3x3, Layer, Linear, MaxPool2, Relu  # noqa: E402
from network import Array  # noqa: E402
from safetensors.numpy import save_file  # noqa: E402
from train import load_split, train  # noqa: E402

from digits import BLOCKS  # noqa: E402

EPOCHS = 20


class Sequence(Layer):
    """Layers one after another; the names of their parameters begin with the names of the layers."""

    def __init__(self, **layers: Layer) -> None:
        super().__init__()
        self.layers = layers
        self.parameters = self._joined("parameters")

    def _joined(self, what: str) -> dict[str, Array]:
        """The parameters of all layers in one dictionary; the arrays are the same."""
        return {
            f"{name}.{key}": array
            for name, layer in self.layers.items()
            for key, array in getattr(layer, what).items()
        }

    def forward(self, x: Array) -> Array:
        for layer in self.layers.values():
            x = layer.forward(x)
        self.state = self._joined("state")
        return x

    def backward(self, dy: Array) -> Array:
        for layer in reversed(self.layers.values()):
            dy = layer.backward(dy)
        self.gradients = self._joined("gradients")
        return dy


class Residual(Sequence):
    """Layers whose result is added to their input, and a ReLU after the sum."""

    def forward(self, x: Array) -> Array:
        total = super().forward(x) + x
        self.positive = total > 0
        return np.asarray(total * self.positive)

    def backward(self, dy: Array) -> Array:
        dy = np.asarray(dy * self.positive)
        return np.asarray(super().backward(dy) + dy)


class GlobalMean(Layer):
    """The mean of every channel: [N, C, H, W] -> [N, C]."""

    def forward(self, x: Array) -> Array:
        self.shape = x.shape
        return np.asarray(x.mean(axis=(2, 3)))

    def backward(self, dy: Array) -> Array:
        spread = dy[:, :, None, None] / np.float32(self.shape[2] * self.shape[3])
        return np.broadcast_to(spread, self.shape).astype(np.float32)


def convolution(random: np.random.Generator, inputs: int, outputs: int) -> Sequence:
    """A convolution and its batch normalization."""
    return Sequence(conv=Conv3x3(random, inputs, outputs), bn=BatchNorm(outputs))


def build(random: np.random.Generator) -> dict[str, Layer]:
    """The layers in order; the names with parameters are those of the weight file."""
    (_, narrow), (_, wide) = BLOCKS
    layers: dict[str, Layer] = {"in": convolution(random, 1, narrow), "relu": Relu()}
    for number, (name, channels) in enumerate(BLOCKS):
        if number:
            layers |= {"pool": MaxPool2(), "widen": convolution(random, narrow, wide), "relu2": Relu()}
        one, two = (convolution(random, channels, channels) for _ in range(2))
        layers[name] = Residual(one=one, relu=Relu(), two=two)
    return layers | {"mean": GlobalMean(), "fc": Linear(random, wide, 10)}


def main() -> None:
    """Trains and writes the constants."""
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else HERE / "resnet.safetensors"
    images, _, labels, _ = load_split()
    save_file(train(images, labels, build, EPOCHS), target)


if __name__ == "__main__":
    main()
