beq a0, a1, . + 3       # error: target = 3 is not a multiple of 2
