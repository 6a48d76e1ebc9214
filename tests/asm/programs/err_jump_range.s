start:
.space 1 << 21
j start                 # error: the target is -2097152 bytes away; jal reaches # col 3
