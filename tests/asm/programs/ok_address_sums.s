.data
d: .word 4 + d          # = 04100080
.text
la a0, (d)              # = 1715000013050500
la a0, 4 + d            # = 171500001305c5ff
.bss
.word 0                 # = 00000000
.space 2                # = 0000
