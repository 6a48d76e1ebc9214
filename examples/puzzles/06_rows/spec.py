import numpy as np

cycles = 19_500


def expected(x):
    return np.maximum(x, 0)


hints = {
    "wrong": "add 2000 * mhartid to both addresses",
    "hazards": "all tiles store to the same row: add the offset of the row to a1, too",
}
