.buffer input, x, fp16, 4, tensor, -, 0x280000000
.buffer input, x, fp16, 4, tensor, -, 0x280001000 # error: buffer x is declared twice
.buffer input, y, fp16, 4, tensor, -, here        # error: symbol here is declared and never defined
.buffer input, z, fp16, 4, tensor, -, (here)      # error: address '(here)': expected a number or a symbol
nop
