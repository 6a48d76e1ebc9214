.ifdef                  # error: .ifdef takes one name
.endif
.ifndef a, b            # error: .ifndef takes one name
.endif
nop
