import numpy as np

kernel = "softmax_kernel"
grid = 6
rng = np.random.default_rng(4)
inputs = {
    "x": (rng.standard_normal((6, 300)) * 5).astype("float32"),
    "y": np.zeros((6, 300), "float32"),
    "columns": 300,
}
tolerance = 1e-5
cycles = 48_000


def expected(x):
    powers = np.exp((x - x.max(axis=1, keepdims=True)).astype(np.float64))
    return {"y": powers / powers.sum(axis=1, keepdims=True)}


hints = {
    "wrong": "subtract the maximum before Exp, and divide by the sum after it",
    "hazards": "TsmWaitfinish() before memcpy reads the sum",
}
