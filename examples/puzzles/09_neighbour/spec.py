import numpy as np

cycles = 32_500


def expected(x):
    return x + np.roll(x, 1, axis=0)


hints = {
    "hazards": "ncc.wait before the copy, dte.wait and ncc.barrier after it",
    "fault": "the next tile is (t + 1) & 15",
}
