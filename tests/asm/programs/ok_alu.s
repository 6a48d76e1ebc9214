add a0, a1, a2          # = 3385c500
addi a0, a1, -2048      # = 13850580
sub s0, s1, t6          # = 3384f441
slli t0, t0, 63         # = 9392f203
sraiw a0, a0, 31        # = 1b55f541
mulhsu a0, a1, a2       # = 33a5c502
divuw x5, x6, x7        # = bb527302
