import numpy as np

kernel = "plus_kernel"
grid = 3
inputs = {"x": np.arange(2500, dtype="float32"), "y": np.zeros(2500, "float32"), "n": 2500}
cycles = 26_000


def expected(x):
    return {"y": x + 1}


hints = {
    "wrong": "the first number of a program is 1024 * __get_pid(0)",
    "hazards": "the last program reads beyond x: its count is n - first",
}
