start: nop
back: nop
    j back              # = 6ff0dfff
    j ahead             # = 6f008000
    nop
ahead: bne a0, a1, start # = e316b5fe
    beqz a0, ahead      # = e30e05fe
