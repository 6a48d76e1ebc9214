.half end - start       # = 0400
start: .word end        # = 06000080
end:
.dword twice            # = 0800000000000000
.equ twice, 2 * four
.equ four, end - start
