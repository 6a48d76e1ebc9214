/* A softmax of each row of a matrix in FP32, a program for each row. Arguments: x, y, columns. */

#include <string.h>

#include "instr_adapter.h"
#include "instr_operator.h"

enum { ROW = 0x10000, POWERS = 0x20000, SUM = 0x30000 };

void softmax_kernel(void *buffer) {
    const uint64_t *const arguments = buffer;
    const uint32_t columns = (uint32_t)arguments[2];
    const uint64_t offset = sizeof(float) * (uint64_t)columns * __get_pid(0);
    uint32_t sum;
    DMA_Param move = {I_RDMA, {0,}, {0,}};
    CT_Param instr = {I_CGRA, {0,}, {0,}};

    TsmNewRdma()->Rdma1d(&move, arguments[0] + offset, ROW, columns, Fmt_FP32);
    TsmExecute(&move);
    TsmNewPeripheral()->ArgMax(&instr, ROW, columns, Fmt_FP32);
    TsmExecute(&instr);
    TsmNewArith()->SubVS(&instr, ROW, (uint32_t)instr.param.wb_data0, ROW, columns, RND_NEAREST_EVEN, Fmt_FP32);
    TsmExecute(&instr);
    TsmNewTranscendental()->Exp(&instr, ROW, POWERS, columns, Fmt_FP32);
    TsmExecute(&instr);
    TsmNewReduce()->ReduceSum(&instr, POWERS, SUM, 0, (Data_Shape){1, 1, 1, (uint16_t)columns}, Fmt_FP32);
    TsmExecute(&instr);
    TsmWaitfinish();
    memcpy(&sum, get_spm_memory_mapping(SUM), sizeof sum);
    /* your part: divide the powers by their sum */
    TsmNewWdma()->Wdma1d(&move, POWERS, arguments[1] + offset, columns, Fmt_FP32);
    TsmExecute(&move);
}
