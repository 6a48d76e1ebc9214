.ascii abc              # error: takes strings
.ascii                  # error: takes strings
.ascii "\q"             # error: unknown escape # col 9
.error "stop here"      # error: stop here
