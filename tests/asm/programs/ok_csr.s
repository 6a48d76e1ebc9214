csrr a0, mhartid        # = 732540f1
csrrw a0, 0x340, a1     # = 73950534
csrw mscratch, a1       # = 73900534
csrwi mscratch, 31      # = 73d00f34
rdcycle t0              # = f32200c0
