.include "part.inc"
.byte PART              # = 2a
