    beq a0, a1, far     # error: the target is 4100 bytes away; beq reaches -4096..4094 # col 17
    .space 4096
far:
    nop
