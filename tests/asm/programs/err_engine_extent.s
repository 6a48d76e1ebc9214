td.memset.fp16 dst=0x2fffff, value=0, n=1 # error: operand 'dst': 0x2fffff and the 2 bytes from there leave the SPM of 0x300000 bytes
rdma.fp16 dst=0x200000, src=0x280000000, n=0x100000 # error: operand 'dst': 0x200000 and the 2097152 bytes
