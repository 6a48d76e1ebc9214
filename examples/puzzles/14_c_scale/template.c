/* y = 3 * x, 1024 numbers of FP32. Arguments: x, y. */

#include "instr_adapter.h"
#include "instr_operator.h"

enum { X = 0x10000, Y = 0x20000, COUNT = 1024, THREE = 0x40400000 };

void scale_kernel(void *buffer) {
    const uint64_t *const arguments = buffer;
    DMA_Param move = {I_RDMA, {0,}, {0,}};
    CT_Param instr = {I_CGRA, {0,}, {0,}};

    TsmNewRdma()->Rdma1d(&move, arguments[0], X, COUNT, Fmt_FP32);
    TsmExecute(&move);
    /* your part: multiply by THREE, from X to Y */
    (void)instr;
    TsmNewWdma()->Wdma1d(&move, Y, arguments[1], COUNT, Fmt_FP32);
    TsmExecute(&move);
}
