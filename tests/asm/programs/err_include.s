.include "nothing.inc"  # error: file nothing.inc not found in # help: -I
.include                # error: .include takes one string
.incbin "bytes.dat", 9  # error: are not in
.incbin "bytes.dat", 2, 9 # error: bytes 2..11 are not in
.incbin 5               # error: .incbin takes
