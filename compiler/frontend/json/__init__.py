"""Reading graph.json: ONNX operators written in JSON (docs/graph_json.md).

The result is the typed graph (``compiler.graph``), as from every reader.
"""
