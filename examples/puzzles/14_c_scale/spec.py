import numpy as np

kernel = "scale_kernel"
inputs = {"x": np.arange(1024, dtype="float32"), "y": np.zeros(1024, "float32")}
cycles = 26_000


def expected(x):
    return {"y": 3 * x}


hints = {"wrong": "TsmNewArith()->MulVS(&instr, X, 0x40400000, Y, 1024, RND_NEAREST_EVEN, Fmt_FP32)"}
