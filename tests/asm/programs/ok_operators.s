.dword 1 + 2 * 3        # = 0700000000000000
.dword (1 + 2) * 3      # = 0900000000000000
.dword 7 / -2, 7 % -2   # = fdffffffffffffff0100000000000000
.dword -7 / 2, -7 % 2   # = fdffffffffffffffffffffffffffffff
.dword 1 << 4 | 3       # = 1300000000000000
.dword 6 & 3 ^ 5        # = 0700000000000000
.dword ~0, !5, !0       # = ffffffffffffffff00000000000000000100000000000000
.dword 1 < 2, 2 <= 1    # = ffffffffffffffff0000000000000000
.dword 1 <> 2, 6 ! 3    # = fffffffffffffffffeffffffffffffff
.dword 6 & 3 + 1        # = 0300000000000000
.dword 1 == 1 && 0 != 0 # = 0000000000000000
.dword 0 || 5           # = 0100000000000000
.dword -1 >> 4          # = ffffffffffffff0f
.dword 1 + 1 == 2       # = ffffffffffffffff
