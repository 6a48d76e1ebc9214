import numpy as np

inputs = {"x": np.arange(100, 164, dtype="int32") ** 2}
cycles = 16_000


def expected(x):
    return x[:1] + x[-1:]


hints = {
    "hazards": "the core reads what RDMA may still write: ncc.wait before lw",
    "wrong": "the last number is 63 * 4 bytes after the first one",
}
