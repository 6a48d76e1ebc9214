import numpy as np

tolerance = 1e-4
cycles = 19_500


def expected(x):
    return x.sum(axis=1, dtype=np.float64)


hints = {
    "wrong": "shape=[1,1,1,256], dims=c",
    "hazards": "results of tiles are 4 bytes apart, rows are 1024 bytes apart",
}
