import numpy as np

kernel = "matmul_kernel"
grid = (2, 2)
rng = np.random.default_rng(5)
inputs = {name: rng.integers(-4, 5, (128, 128)).astype("float16") for name in ("a", "b")}
inputs |= {"c": np.zeros((128, 128), "float32"), "k": 128, "n": 128}
cycles = 29_500


def expected(a, b):
    return {"c": a.astype(np.float64) @ b}


hints = {"wrong": "b has one plane: 64 columns, and all K rows with a step of n"}
