.input x, fp16          # error: .input takes NAME, FORMAT, SHAPE
.input x, fp17, 4x4     # error: unknown format 'fp17'
.input x, fp16, 4by4    # error: shape '4by4'
.input x, fp16, 4x0, cx # error: extent 0
.input x, fp16, 4, cxx  # error: unknown layout 'cxx'
.input x, int64, 4, cx  # error: no channel-blocked placement
.input x, fp16, 4, cx, float17 # error: dtype 'float17'
.input 5, fp16, 4       # error: '5' is not a name
.input y, fp16, 4
.output y, fp16, 4      # error: symbol y is defined twice # col 9
.const w, int8, 9, "bytes.dat"    # error: bytes.dat has 8 bytes, bytes 0..9 are needed
.const w, int8, 7, "bytes.dat"    # error: bytes 0..7 are needed
.const w, int8, 4, "bytes.dat", 5 # error: bytes 5..9 are needed
.const w, int8, 4       # error: .const takes NAME, FORMAT, SHAPE[, LAYOUT], "file"[, offset]
.const "bytes.dat"      # error: .const takes NAME, FORMAT, SHAPE[, LAYOUT], "file"[, offset]
.const w, "bytes.dat"   # error: .const takes NAME, FORMAT, SHAPE[, LAYOUT], found 1 arguments
.checksum "bytes.dat", "none" # error: bytes.dat is not the file that this program was written with # col 11
.const w, int8, 4, "bytes.dat", two  # error: byte offset 'two': expected a number
.const w, int8, 4, "bytes.dat", 1, 2 # error: '1, 2' after the file
.const w, int8, 4, "bytes.dat",      # error: byte offset '': expected a number
.const w, int8, 8, "none.dat"     # error: file none.dat not found
.buffer inout, x, fp16, 4, tensor, -, 0 # error: .buffer takes
