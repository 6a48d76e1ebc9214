/* out = x + y, 1024 numbers of FP32 for each program. Arguments: x, y, out, how many numbers. */

#include "instr_adapter.h"
#include "instr_operator.h"

enum { BLOCK = 1024, X = 0x10000, Y = 0x20000, SUM = 0x30000 };

void add_kernel(void *buffer) {
    const uint64_t *const arguments = buffer;
    const uint32_t first = BLOCK * __get_pid(0), all = (uint32_t)arguments[3];
    const uint32_t count = all - first < BLOCK ? all - first : BLOCK;
    const uint64_t offset = sizeof(float) * (uint64_t)first;
    TsmRdma *const rdma = g_intrinsic()->rdma_pointer;
    TsmArith *const arith = g_intrinsic()->arith_pointer;
    TsmWdma *const wdma = g_intrinsic()->wdma_pointer;
    TsmRdmaInstr load = {I_RDMA, {0,}, {0,}};
    TsmArithInstr sum = {I_CGRA, {0,}, {0,}};
    TsmWdmaInstr store = {I_WDMA, {0,}, {0,}};

    rdma->Rdma1d(&load, arguments[0] + offset, X, count, Fmt_FP32);
    TsmExecute(&load);
    rdma->Rdma1d(&load, arguments[1] + offset, Y, count, Fmt_FP32);
    TsmExecute(&load);
    arith->AddVV(&sum, X, Y, SUM, count, RND_NEAREST_EVEN, Fmt_FP32);
    TsmExecute(&sum);
    wdma->Wdma1d(&store, SUM, arguments[2] + offset, count, Fmt_FP32);
    TsmExecute(&store);
}
