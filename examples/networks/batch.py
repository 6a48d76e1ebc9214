"""Change models for one image or one sequence into models for a batch."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import numpy_helper


def set_batch(model: onnx.ModelProto, batch: int) -> None:
    """Make ``batch`` the first axis of a model's inputs, outputs and constant shapes."""
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.shape.dim[0].dim_value = batch
    shapes = {node.input[1] for node in model.graph.node if node.op_type == "Reshape"}
    for tensor in model.graph.initializer:
        if tensor.name in shapes:
            extents = [batch, *numpy_helper.to_array(tensor)[1:]]
            tensor.CopyFrom(numpy_helper.from_array(np.array(extents, np.int64), tensor.name))
