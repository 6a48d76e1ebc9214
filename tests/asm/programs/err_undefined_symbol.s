alpha: nop
j alhpa                 # error: undefined symbol alhpa # col 3 # help: did you mean 'alpha'?
li a0, nothing          # error: li needs a number that is known here, found nothing # col 8
.word nothing + 1       # error: undefined symbol nothing # col 7
bne a0, a1, 3f          # error: undefined symbol 3f # col 13
bne a0, a1, 4b          # error: undefined symbol 4b # col 13
rdma.fp16 dst=q, src=0, n=4 # error: undefined symbol q # col 15
