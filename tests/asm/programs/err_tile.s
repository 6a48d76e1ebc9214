.tile 16                # error: tile 16 is outside 0..15 of machine tx81
.tile 3
nop
.tile 3                 # error: tile 3 has an entry already
.data
.tile 4                 # error: .tile in section .data
.text
.entry
.entry                  # error: the program has an entry already
nop
