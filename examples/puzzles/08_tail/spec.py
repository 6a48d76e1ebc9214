cycles = 19_500


def expected(x):
    return 2 * x


hints = {
    "hazards": "tile 15 has 1000 - 15 * 64 numbers: compute the count, the smaller of 64 and what is left",
    "wrong": "the count is the smaller of 64 and 1000 - 64 * t",
}
