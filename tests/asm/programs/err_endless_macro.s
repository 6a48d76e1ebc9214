.macro again
    again               # error: macros within each other 64 deep
.endm
again
