/* y = x + 1, 1024 numbers of FP32 for each program. Arguments: x, y, how many numbers. */

#include "instr_adapter.h"
#include "instr_operator.h"

enum { X = 0x10000, Y = 0x20000, BLOCK = 1024, ONE = 0x3f800000 };

void plus_kernel(void *buffer) {
    const uint64_t *const arguments = buffer;
    const uint32_t first = 0, count = BLOCK; /* your part: the first number and the count of this program */
    const uint64_t offset = sizeof(float) * (uint64_t)first;
    DMA_Param move = {I_RDMA, {0,}, {0,}};
    CT_Param instr = {I_CGRA, {0,}, {0,}};

    TsmNewRdma()->Rdma1d(&move, arguments[0] + offset, X, count, Fmt_FP32);
    TsmExecute(&move);
    TsmNewArith()->AddVS(&instr, X, ONE, Y, count, RND_NEAREST_EVEN, Fmt_FP32);
    TsmExecute(&instr);
    TsmNewWdma()->Wdma1d(&move, Y, arguments[1] + offset, count, Fmt_FP32);
    TsmExecute(&move);
}
