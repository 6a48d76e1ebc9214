.wrod 1                 # error: unknown directive .wrod # col 1 # help: did you mean '.word'?
