.ascii "ab", "c"        # = 616263
.asciz "ab"             # = 616200
.string "a", "b"        # = 61006200
.ascii "\n\t\\\"\x41\101\0" # = 0a095c22414100
.ascii "é"              # = c3a9
