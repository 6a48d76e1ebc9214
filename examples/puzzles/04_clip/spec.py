import numpy as np

inputs = {"x": np.linspace(-10, 10, 512).astype("float16")}
cycles = 23_500


def expected(x):
    return np.clip(x, 0, 6)


hints = {"wrong": "ct.max.vs.fp16 with src1=0.0, and on its result ct.min.vs.fp16 with src1=6.0"}
