.rept 2
    bogus               # error: unknown instruction 'bogus' # note: in repetition 1 of .rept
.endr
