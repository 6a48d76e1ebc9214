.rept -1                # error: .rept -1 is outside
.endr
.irp                    # error: .irp takes a parameter and values
.endr
.irpc x                 # error: .irpc takes a parameter and characters
.endr
.rept unknown           # error: the value must be known here
.endr
