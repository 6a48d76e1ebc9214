cycles = 19_500


def expected(a, b):
    return a + b


hints = {
    "wrong": "two loads to different addresses, then ct.add.vv.fp16",
    "refused": "both .input lines name fp16: so must the instructions",
}
