# error: the program has no instruction
.data
.word 1
