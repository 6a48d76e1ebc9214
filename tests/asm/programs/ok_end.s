nop                     # = 13000000
.end
bogus
