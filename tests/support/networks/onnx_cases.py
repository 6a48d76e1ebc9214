"""The operator tests of the onnx package, adapted to a static compiler.

A node test passes every operand at run time, also operands that determine shapes (the shape of Reshape, the
axes of ReduceSum, the k of TopK). In real models these are constants, so such operands, listed in
``ATTRIBUTE_LIKE``, become initializers. A name that starts with ``f32/`` is a test that onnx has in double
precision only, with every double converted to a float. A name with a folder
(``pytorch-converted/test_Conv2d``) is a stored model.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

from compiler.graph import Array
from onnx_node_tests import base_name, node_test

DATA = Path(onnx.__file__).parent / "backend" / "test" / "data"

ATTRIBUTE_LIKE = {
    "AffineGrid": (1,),
    "CenterCropPad": (1,),
    "Clip": (1, 2),
    "Col2Im": (1, 2),
    "ConstantOfShape": (0,),
    "ConvInteger": (2, 3),
    "CumProd": (1,),
    "CumSum": (1,),
    "DequantizeLinear": (1, 2),
    "Dropout": (1, 2),
    "Expand": (1,),
    "GRU": (4,),
    "LSTM": (4,),
    "Loop": (0, 1),
    "MatMulInteger": (2, 3),
    "MaxUnpool": (2,),
    "OneHot": (1,),
    "Pad": (1, 2, 3),
    "QLinearConv": (1, 2, 4, 5, 6, 7),
    "QLinearMatMul": (1, 2, 4, 5, 6, 7),
    "QuantizeLinear": (1, 2),
    "RNN": (4,),
    "Range": (0, 1, 2),
    "ReduceL1": (1,),
    "ReduceL2": (1,),
    "ReduceLogSum": (1,),
    "ReduceLogSumExp": (1,),
    "ReduceMax": (1,),
    "ReduceMean": (1,),
    "ReduceMin": (1,),
    "ReduceProd": (1,),
    "ReduceSum": (1,),
    "ReduceSumSquare": (1,),
    "Reshape": (1,),
    "Resize": (1, 2, 3),
    "ReverseSequence": (1,),
    "Slice": (1, 2, 3, 4),
    "Split": (1,),
    "Squeeze": (1,),
    "Tile": (1,),
    "TopK": (1,),
    "Trilu": (1,),
    "Unsqueeze": (1,),
    "Upsample": (1,),
}


@dataclass
class Case:
    name: str
    operator: str  # the operator under test; for several nodes, the first one
    model: onnx.ModelProto
    sets: list[tuple[dict[str, Array], dict[str, Array]]] = field(default_factory=list)
    """Inputs and outputs by name."""

    def declared(self) -> dict[str, int]:
        return {o.name: o.type.tensor_type.elem_type for o in self.model.graph.output}


def as_array(x: Any) -> Array:
    if isinstance(x, TensorProto):
        return numpy_helper.to_array(x)
    return np.asarray(x)


def bind_as_initializer(model: onnx.ModelProto, name: str, value: Array) -> None:
    g = model.graph
    t = numpy_helper.from_array(value, name)
    for i in list(g.input):
        if i.name == name and model.ir_version >= 4:
            g.input.remove(i)
    g.initializer.append(t)


def attribute_like(node: onnx.NodeProto) -> set[str]:
    return {
        node.input[k] for k in ATTRIBUTE_LIKE.get(node.op_type, ()) if k < len(node.input) and node.input[k]
    }


def halve(case: Case) -> None:
    """Turn every double of a case into a float."""
    g = case.model.graph
    for v in list(g.input) + list(g.output) + list(g.value_info):
        if v.type.tensor_type.elem_type == TensorProto.DOUBLE:
            v.type.tensor_type.elem_type = TensorProto.FLOAT

    def single(t: TensorProto) -> None:
        if t.data_type == TensorProto.DOUBLE:
            t.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(t).astype(np.float32), t.name))

    for t in g.initializer:
        single(t)
    for n in g.node:
        for a in n.attribute:
            if a.type == onnx.AttributeProto.TENSOR:
                single(a.t)
            if n.op_type == "Cast" and a.name == "to" and a.i == TensorProto.DOUBLE:
                a.i = TensorProto.FLOAT
    for pair in case.sets:
        for tensors in pair:
            for k, a in tensors.items():
                if a.dtype == np.float64:
                    with np.errstate(over="ignore"):
                        tensors[k] = a.astype(np.float32)


def load(name: str) -> Case:
    """The test of a name; KeyError or FileNotFoundError when the onnx package has none."""
    double, name = name.startswith("f32/"), name.removeprefix("f32/")
    case = _load_disk(name) if "/" in name else _load_node(name)
    if double:
        halve(case)
        case.name = "f32/" + name
    written_out = "/" not in name and "_expanded" in name
    nodes = node_test(base_name(name)).model.graph.node if written_out else case.model.graph.node
    fixing = set().union(*map(attribute_like, nodes))
    have = {item.name for item in case.model.graph.initializer}
    fixing &= {item.name for item in case.model.graph.input} - have
    for operand in sorted(fixing):
        bind_as_initializer(case.model, operand, case.sets[0][0][operand])
    for inputs, _ in case.sets:
        for operand in fixing:
            inputs.pop(operand, None)
    return case


def _load_node(name: str) -> Case:
    test = node_test(name)
    model = onnx.ModelProto()
    model.CopyFrom(test.model)
    op = node_test(base_name(name)).model.graph.node[0]
    case = Case(name, f"{op.domain}.{op.op_type}" if op.domain else op.op_type, model)
    names = [v.name for v in model.graph.input], [v.name for v in model.graph.output]
    for pair in test.data_sets:
        inputs, outputs = ([as_array(item) for item in part] for part in pair)
        case.sets.append(
            (dict(zip(names[0], inputs, strict=False)), dict(zip(names[1], outputs, strict=False)))
        )
    return case


def _load_disk(name: str) -> Case:
    folder = DATA / name
    model = onnx.load(folder / "model.onnx")
    own = {item.name for item in model.graph.initializer}
    free = [item.name for item in model.graph.input if item.name not in own]
    outputs = [item.name for item in model.graph.output]
    # In some tests Constant comes first, which is not the operator under test.
    operator = next(node.op_type for node in model.graph.node if node.op_type != "Constant")
    case = Case(name, operator, model)
    for data in sorted(folder.glob("test_data_set_*")):
        case.sets.append((_stored(data, "input", free), _stored(data, "output", outputs)))
    return case


def _stored(folder: Path, prefix: str, names: list[str]) -> dict[str, Array]:
    found = {}
    for index, name in enumerate(names):
        tensor = TensorProto()
        tensor.ParseFromString((folder / f"{prefix}_{index}.pb").read_bytes())
        found[name] = numpy_helper.to_array(tensor)
    return found


def read_list(path: Path | str) -> list[str]:
    """The first word of each line; blank lines and comments after a '#' do not count."""
    lines = Path(path).read_text(encoding="utf-8").splitlines()
    words = (line.split("#", 1)[0].split() for line in lines)
    return [found[0] for found in words if found]


def to_npy(a: Array) -> Array:
    """Convert an array for a .npy file: bfloat16, which numpy lacks, becomes float32."""
    return a.astype(np.float32) if a.dtype.name == "bfloat16" else a
