"""ONNX Runtime as an engine: three graphs (forward, backward, optimizer) over one set of arrays."""
