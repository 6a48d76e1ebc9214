j nowhere               # error: undefined symbol nowhere
j nowhere               # error: undefined symbol nowhere
nop
