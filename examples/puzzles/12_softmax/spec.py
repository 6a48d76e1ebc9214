import numpy as np

inputs = {"x": (np.random.default_rng(1).standard_normal((16, 256)) * 5).astype("float32")}
tolerance = 1e-5
cycles = 36_000


def expected(x):
    powers = np.exp((x - x.max(axis=1, keepdims=True)).astype(np.float64))
    return powers / powers.sum(axis=1, keepdims=True)


hints = {
    "hazards": "ncc.wait before each lw: CT may still be reducing",
    "wrong": "read the sum as the maximum was read, and divide by it",
}
