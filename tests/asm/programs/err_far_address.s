la a0, x                # error: bytes away; auipc reaches 2 GiB # col 8 # help: before its first use
.input x, fp16, 4
lw a1, x                # error: auipc reaches 2 GiB
