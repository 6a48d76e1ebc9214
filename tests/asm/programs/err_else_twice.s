.if 0
.else
nop
  .else                 # error: .else after .else # col 3
.endif
nop
