import numpy as np

rng = np.random.default_rng(3)
inputs = {name: (rng.standard_normal((256, 64)) / 2).astype("float16") for name in ("q", "k", "v")}
tolerance = 2e-3
cycles = 41_500


def expected(q, k, v):
    powers = np.exp(q.astype(np.float64) @ k.T.astype(np.float64) / 8)
    return powers / powers.sum(axis=1, keepdims=True) @ v


hints = {
    "wrong": "the sums are powers x ones: the same product as with v, from 0x50000",
    "fault": "m is 16, k and n of the second product are 256 and 64",
}
