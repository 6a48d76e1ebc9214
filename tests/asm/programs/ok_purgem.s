.macro once
.byte 1
.endm
once                    # = 01
.purgem once
.macro once
.byte 2
.endm
once                    # = 02
