.section                # error: .section takes NAME
.section .x, "q"        # error: flags "q" # help: "a", "aw", "ax"
.section .x, "a", @wat  # error: type @wat
.section .y, "aw"
.section .y, "ax"       # error: section .y was opened with other flags
.text 5                 # error: .text takes no argument
.bss
.word 1                 # error: section .bss holds no data
nop                     # error: an instruction in section .bss
.data
nop                     # error: an instruction in section .data # help: .text
