nop # = 13000000
nop // bogus
nop /* ; bogus */       # = 13000000
/* bogus
   bogus */ nop       # = 13000000
.ascii "#;//" ; .byte 1 # = 233b2f2f01
.byte '#', ';'          # = 233b
