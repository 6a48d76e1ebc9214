.if later               # error: the value must be known here, found later
.endif
.equ later, 1
.else                   # error: .else without .if
.endif                  # error: .endif without .if
.if 1, 2                # error: .if takes 1 arguments, found 2
.endif
.if 1
.else
.else                   # error: .else after .else
.endif
  .if 1                 # error: .if without .endif # col 3
nop
