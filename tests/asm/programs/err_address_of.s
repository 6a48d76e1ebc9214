.section .data
d: .word 1
.text
li a0, d                # error: li needs a number that is known here, found an address in .data # help: use la
.input x, fp16, 4
la a0, (x) - 0x300000000 # error: is not an address: expected 0.. # col 12
