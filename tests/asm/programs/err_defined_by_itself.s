.equ A, B + 1           # error: symbol B: symbol A: defined by itself # col 9
.equ B, A + 1           # error: defined by itself
.dword A                # error: symbol A: symbol B: symbol A: defined by itself # col 8
.equ UNUSED, NOTHING    # error: undefined symbol NOTHING # col 14
nop
