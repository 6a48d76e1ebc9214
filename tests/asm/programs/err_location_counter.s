.org 4, 5, 6            # error: .org takes an offset
.equ ., 4               # error: '.' is the current place # col 6
.fill 1 << 40           # error: fills and padding need 1099511627776 bytes in the image # help: reserve them last
.data
far: .word 1
.text
.org far                # error: .org to a place in .data from section .text # col 1
.entry 5                # error: .entry takes no argument
.macro m 5              # error: '5' is not a parameter # help: name:req
.endm
nop
