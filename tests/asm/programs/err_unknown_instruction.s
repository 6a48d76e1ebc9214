adi a0, a0, 1           # error: unknown instruction 'adi' # col 1 # help: did you mean
  ct.addd.vv.fp16 n=1   # error: unknown instruction # col 3 # help: ct.add.vv.fp16
rdma dst=0              # error: unknown instruction 'rdma' # help: it needs a format
rdma.fp99 dst=0         # error: unknown instruction # help: fp16
