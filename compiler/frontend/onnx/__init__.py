"""Reading ONNX models: the file, old operator sets, function bodies, constant folding.

``importer`` goes through a model node by node.
"""
