cycles = 36_500


def expected(x):
    return x.T


hints = {
    "wrong": "n=1; level 0 goes down a column (16 steps of 64), level 1 to the next column (64 steps of 1)"
}
