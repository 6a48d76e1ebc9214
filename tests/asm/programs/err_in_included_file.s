nop
.include "part.inc"
bogus                   # error: unknown instruction 'bogus'
