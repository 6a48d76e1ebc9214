import numpy as np

cycles = 34_000


def expected(x):
    return x + np.float32(1)


hints = {
    "slow": "no ncc.wait in the loop, and both buffers 0x20000 further on for the next piece",
    "hazards": "one ncc.wait after the loop, before the program ends",
}
