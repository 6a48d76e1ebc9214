.section .ddr
first: .word 5          # = 05000000
.section .ddr.bss
null: .space 16
.text
nop
.dword first, null      # = 00100080020000000020008002000000
