"""Writes a network with seeded weights as ONNX, and an input for it.

    python examples/networks/make.py NAME FOLDER

NAME is squeezenet, resnet50, block (the first convolution of ResNet-50 with its pool, and the first
bottleneck), or a transformer. FOLDER gets NAME.onnx and an input for it: image.npy, float32 [1, 3, 224, 224],
or tokens.npy, float32 [1, tokens, width].
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import onnx

from light import NAMES, image, light_model
from transformers import SIZES, tokens, transformer

BLOCK = "block"
_BLOCK_END = "r15"
_BLOCK_NODES = (
    "conv1",
    "conv1_norm",
    "conv1_relu",
    "pool",
    "reduce",
    "reduce_norm",
    "reduce_relu",
    "spatial",
    "spatial_norm",
    "spatial_relu",
    "expand",
    "expand_norm",
    "shortcut",
    "shortcut_norm",
    "sum",
    "sum_relu",
)
"""Names for the nodes of the block, which are numbered in the model."""


def resnet_block() -> onnx.ModelProto:
    """The nodes of ResNet-50 up to the end of its first bottleneck; its output is ``y``."""
    model = light_model("resnet50", _BLOCK_END)
    (start,) = (value.name for value in model.graph.input)
    model.graph.name = BLOCK
    for node, name in zip(model.graph.node, _BLOCK_NODES, strict=True):
        node.name = name
    _rename(model, {start: "image", _BLOCK_END: "y"})
    onnx.checker.check_model(model)
    return model


def _rename(model: onnx.ModelProto, names: dict[str, str]) -> None:
    for node in model.graph.node:
        node.input[:] = [names.get(name, name) for name in node.input]
        node.output[:] = [names.get(name, name) for name in node.output]
    for value in (*model.graph.input, *model.graph.output):
        value.name = names.get(value.name, value.name)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("name", choices=(*NAMES, BLOCK, *SIZES), help="which network")
    parser.add_argument("folder", type=Path, help="where to write; made if it is not there")
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    if arguments.name in SIZES:
        model, kind, values = transformer(SIZES[arguments.name]), "tokens", tokens(SIZES[arguments.name])
    else:
        model = resnet_block() if arguments.name == BLOCK else light_model(arguments.name)
        kind, (values,) = "image", image(model).values()
    onnx.save(model, arguments.folder / f"{arguments.name}.onnx")
    np.save(arguments.folder / f"{kind}.npy", values)


if __name__ == "__main__":
    main()
