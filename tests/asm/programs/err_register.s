add a0, a1, a9          # error: a9 is not an x register # col 13 # help: x0..x31
add a0, 5, a1           # error: 5 is not an x register # col 9
addi a0, a1+1, 2        # error: an x register is expected # col 12
lw a0, 4(foo)           # error: foo is not an x register # col 10
li x32, 1               # error: x32 is not an x register # col 4
