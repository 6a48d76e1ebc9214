.byte 1
nop                     # error: must stand on a multiple of 2 bytes # col 1 # help: .align 1
