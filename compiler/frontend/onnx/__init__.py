"""Reading ONNX models: the file, old operator sets, function bodies, constant folding."""
