.dword %ncc(5)          # error: %ncc: 0x5 is outside
.dword %core(here)      # error: %core: 0x80000008 is outside
here: nop
lui a0, %hi(here)       # error: %hi: 0x80000008 is beyond lui # col 9
.equ below, -0x80000801
lui a0, %hi(below)      # error: %hi: -0x80000801 is beyond lui # col 9
.equ above, 0x7ffff800
lui a0, %hi(above)      # error: %hi: 0x7ffff800 is beyond lui # col 9
addi a0, a0, %pcrel_lo(here) # error: no %pcrel_hi stands at
