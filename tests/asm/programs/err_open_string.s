.ascii "abc             # error: unexpected character
nop
