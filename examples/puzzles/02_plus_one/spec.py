import numpy as np

cycles = 19_500


def expected(x):
    return x + np.float32(1)


hints = {"wrong": "ct.add.vs.fp32 from 0x10000 to 0x20000, and the store takes 0x20000"}
