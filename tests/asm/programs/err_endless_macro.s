.macro again
    again               # error: macros call one another more than 64 deep
.endm
again
