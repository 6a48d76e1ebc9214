cycles = 15_500


def expected(x):
    return x


hints = {
    "wrong": "a load into the scratchpad, then a store from the same address to a1",
    "hazards": "the program ends before the store does: ncc.wait",
}
