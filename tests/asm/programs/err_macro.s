.macro two a, b:req
    li \a, \b
.endm
two a0                  # error: argument b is missing
two a0, 1, 2            # error: macro two takes 2 arguments, found 3
.macro two              # error: macro two is defined twice
.endm
.macro add              # error: add is an instruction
.endm
.macro 5                # error: takes a name
.endm
.endm                   # error: .endm without .macro
.exitm                  # error: .exitm outside a macro
.purgem other           # error: there is no macro other
