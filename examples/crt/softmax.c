/* A softmax of each row of a matrix in FP32, a program for each row. Arguments: x, out, columns. */

#include <string.h>

#include "instr_adapter.h"
#include "instr_operator.h"

enum { ROW = 0x10000, POWERS = 0x20000, SUM = 0x30000 };

void softmax_kernel(void *buffer) {
    const uint64_t *const arguments = buffer;
    const uint32_t columns = (uint32_t)arguments[2];
    const uint64_t offset = sizeof(float) * (uint64_t)columns * __get_pid(0);
    TsmArith *const arith = g_intrinsic()->arith_pointer;
    TsmTranscendental *const transcendental = g_intrinsic()->transcendental_pointer;
    TsmReduce *const reduce = g_intrinsic()->reduce_pointer;
    TsmPeripheral *const peripheral = g_intrinsic()->peripheral_pointer;
    DMA_Param move = {I_RDMA, {0,}, {0,}};
    CT_Param instr = {I_CGRA, {0,}, {0,}};
    uint32_t sum;

    TsmNewRdma()->Rdma1d(&move, arguments[0] + offset, ROW, columns, Fmt_FP32);
    TsmExecute(&move);

    /* TsmExecute waits for what ArgMax returns, the bits of the largest number. */
    peripheral->ArgMax(&instr, ROW, columns, Fmt_FP32);
    TsmExecute(&instr);
    arith->SubVS(&instr, ROW, (uint32_t)instr.param.wb_data0, ROW, columns, RND_NEAREST_EVEN, Fmt_FP32);
    TsmExecute(&instr);
    transcendental->Exp(&instr, ROW, POWERS, columns, Fmt_FP32);
    TsmExecute(&instr);

    /* A vector is a tensor with one position, whose channels are reduced. */
    reduce->ReduceSum(&instr, POWERS, SUM, 0, (Data_Shape){1, 1, 1, (uint16_t)columns}, Fmt_FP32);
    TsmExecute(&instr);
    TsmWaitfinish();
    memcpy(&sum, get_spm_memory_mapping(SUM), sizeof sum);
    arith->DivVS(&instr, POWERS, sum, POWERS, columns, RND_NEAREST_EVEN, Fmt_FP32);
    TsmExecute(&instr);

    TsmNewWdma()->Wdma1d(&move, POWERS, arguments[1] + offset, columns, Fmt_FP32);
    TsmExecute(&move);
}
