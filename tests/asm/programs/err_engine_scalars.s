td.memset.int8 dst=0, n=4, value=0.5     # error: 0.5 is a fraction, the format is int8 # col 34
td.memset.fp16 dst=0, n=4, value=0x10000 # error: 0x10000 does not fit the 16 bits of fp16 # col 34
td.memset.fp16 dst=0, n=4.0, value=1     # error: 4.0 is a fraction # col 25
