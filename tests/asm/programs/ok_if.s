.if 0
bogus
.if 1
bogus
.else
bogus
.endif
.elseif 2 > 1
.byte 1                 # = 01
.elseif 1
bogus
.else
bogus
.endif
.ifdef NOTHING
bogus
.else
.byte 2                 # = 02
.endif
.equ SOMETHING, 0
.ifdef SOMETHING
.byte 3                 # = 03
.endif
.ifndef NOTHING
.byte 4                 # = 04
.endif
.if SOMETHING == 0 && 1
.byte 5                 # = 05
.endif
