"""Train the digits network on scikit-learn's handwritten digits and write the files of the example.

    python examples/digits/train.py [FOLDER]

FOLDER (default: the folder of this file) receives weights.safetensors, test_images.npy and test_labels.npy.
It needs NumPy, scikit-learn and safetensors, and takes about ten seconds on one core. Every random choice is
seeded.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
from layers import BatchNorm, Conv3x3, Flatten, Layer, Linear, MaxPool2, Relu
from network import Array, probabilities, softmax
from numpy.typing import NDArray
from safetensors.numpy import save_file
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

TEST_IMAGES = 360
EPOCHS = 30
BATCH = 64
LEARNING_RATE = 2e-3
SEED = 2024

Labels = NDArray[np.int64]
Split = tuple[Array, Array, Labels, Labels]


def load_split() -> Split:
    """Train images, test images, train labels, test labels; stratified by class with a fixed seed."""
    digits = load_digits()
    images = (digits.images / 16).astype(np.float32)[:, None]
    split = train_test_split(
        images, digits.target, test_size=TEST_IMAGES, stratify=digits.target, random_state=0
    )
    return tuple(split)


def build(random: np.random.Generator) -> dict[str, Layer]:
    """The layers in order; the names with parameters are those of the weight file."""
    return {
        "conv1": Conv3x3(random, 1, 32),
        "bn1": BatchNorm(32),
        "relu1": Relu(),
        "pool1": MaxPool2(),
        "conv2": Conv3x3(random, 32, 64),
        "bn2": BatchNorm(64),
        "relu2": Relu(),
        "pool2": MaxPool2(),
        "flatten": Flatten(),
        "fc1": Linear(random, 256, 64),
        "relu3": Relu(),
        "fc2": Linear(random, 64, 10),
    }


class Adam:
    """Adam (Kingma and Ba, 2015) over the parameters of all layers."""

    def __init__(self, layers: dict[str, Layer]) -> None:
        self.layers = layers
        self.steps = 0
        self.moments: dict[tuple[str, str], tuple[Array, Array]] = {}
        for name, layer in layers.items():
            for key, value in layer.parameters.items():
                self.moments[name, key] = np.zeros_like(value), np.zeros_like(value)

    def step(self, rate: float) -> None:
        """Moves every parameter once along its last gradient."""
        self.steps += 1
        correction = np.float32(rate * np.sqrt(1 - 0.999**self.steps) / (1 - 0.9**self.steps))
        for (name, key), (first, second) in self.moments.items():
            gradient = self.layers[name].gradients[key]
            first += np.float32(0.1) * (gradient - first)
            second += np.float32(0.001) * (gradient * gradient - second)
            self.layers[name].parameters[key] -= correction * first / (np.sqrt(second) + np.float32(1e-8))


def shifted(random: np.random.Generator, images: Array) -> Array:
    """Each image moved by -1, 0 or 1 pixel in both directions, zeros entering at the border."""
    padded = np.pad(images, ((0, 0), (0, 0), (1, 1), (1, 1)))
    moved = np.empty_like(images)
    for index, (down, right) in enumerate(random.integers(0, 3, (len(images), 2))):
        moved[index] = padded[index, :, down : down + 8, right : right + 8]
    return moved


def train_batch(layers: dict[str, Layer], images: Array, labels: Labels) -> float:
    """Set all gradients for one batch; returns the mean cross entropy."""
    values = images
    for layer in layers.values():
        values = layer.forward(values)
    predicted = softmax(values)
    rows = np.arange(len(labels))
    loss = -np.log(predicted[rows, labels] + np.float32(1e-12)).mean()
    gradient = predicted
    gradient[rows, labels] -= 1
    gradient /= np.float32(len(labels))
    for layer in reversed(layers.values()):
        gradient = layer.backward(gradient)
    return float(loss)


def train(
    images: Array,
    labels: Labels,
    build: Callable[[np.random.Generator], dict[str, Layer]] = build,
    epochs: int = EPOCHS,
) -> dict[str, Array]:
    """The trained constants by name, with the running statistics; ``build`` makes the layers."""
    random = np.random.default_rng(SEED)
    layers = build(random)
    adam = Adam(layers)
    for epoch in range(epochs):
        rate = LEARNING_RATE * 0.5 * (1 + np.cos(np.pi * epoch / epochs))
        losses = []
        for batch in np.array_split(random.permutation(len(images)), len(images) // BATCH):
            losses.append(train_batch(layers, shifted(random, images[batch]), labels[batch]))
            adam.step(rate)
        print(f"epoch {epoch + 1:2}/{epochs}  mean loss {np.mean(losses):.4f}", flush=True)
    return {
        f"{name}.{key}": np.ascontiguousarray(value, np.float32)
        for name, layer in layers.items()
        for key, value in (layer.parameters | layer.state).items()
    }


def right(images: Array, labels: Labels, weights: dict[str, Array]) -> str:
    """How many images the float32 reference classifies rightly, as text."""
    hits = int((probabilities(images, weights).argmax(axis=1) == labels).sum())
    return f"{hits} of {len(labels)} ({100 * hits / len(labels):.2f} %)"


def main() -> None:
    """Trains, prints both accuracies and writes the files."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent
    train_images, test_images, train_labels, test_labels = load_split()
    weights = train(train_images, train_labels)
    print(f"train: {right(train_images, train_labels, weights)}")
    print(f"test:  {right(test_images, test_labels, weights)}")
    folder.mkdir(parents=True, exist_ok=True)
    save_file(weights, folder / "weights.safetensors")
    np.save(folder / "test_images.npy", test_images)
    np.save(folder / "test_labels.npy", test_labels.astype(np.int64))


if __name__ == "__main__":
    main()
