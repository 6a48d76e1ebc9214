add a0, a1,, a2         # error: unexpected ',' # col 12
add a0, a1, (a2         # error: the operands end too early
add a0 a1 a2            # error: unexpected 'a1' # col 8
add a0, a1, @           # error: unexpected character '@' # col 13
5 + 5                   # error: a statement begins with a name # col 1
@@@                     # error: a statement begins with a name, found '@' # col 1
  ) nop                 # error: a statement begins with a name, found ')' # col 3
