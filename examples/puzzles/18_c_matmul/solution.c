/* c = a x b in FP16 with sums and results in FP32. A program of the grid (N / 64, M / 64) computes 64 x 64 results;
   all extents are multiples of 64. Arguments: a [M, K], b [K, N], c [M, N], K, N. */

#include "instr_adapter.h"
#include "instr_operator.h"

enum { TILE = 64, HALF = 2, SINGLE = 4, A = 0x10000, B = 0x110000, C = 0x210000 };

void matmul_kernel(void *buffer) {
    const uint64_t *const arguments = buffer;
    const uint32_t k = (uint32_t)arguments[3], n = (uint32_t)arguments[4];
    const uint64_t row = TILE * (uint64_t)__get_pid(1), column = TILE * (uint64_t)__get_pid(0);
    TsmRdma *const rdma = g_intrinsic()->rdma_pointer;
    TsmWdma *const wdma = g_intrinsic()->wdma_pointer;
    TsmGemm *const gemm = g_intrinsic()->gemm_pointer;
    TsmRdmaInstr load = {I_RDMA, {0,}, {0,}};
    TsmWdmaInstr store = {I_WDMA, {0,}, {0,}};
    TsmNeInstr product = {I_NEUR, {0,}, {0,}};

    /* The engine wants planes of 64 columns: 64 rows of each plane of a, then the next plane. */
    rdma->AddSrcDst(&load, arguments[0] + HALF * row * k, A, Fmt_FP16);
    rdma->ConfigStrideIteration(&load, TILE, k, TILE, TILE, k / TILE, 0, 1);
    TsmExecute(&load);
    rdma->AddSrcDst(&load, arguments[1] + HALF * column, B, Fmt_FP16);
    rdma->ConfigStrideIteration(&load, TILE, n, k, 0, 1, 0, 1);
    TsmExecute(&load);

    gemm->AddInput(&product, A, B, Fmt_FP16);
    gemm->ConfigMKN(&product, TILE, k, TILE);
    gemm->ConfigBatch(&product, 1, 1);
    gemm->SetTransflag(&product, 0, 1); /* b is [K, N] as it stands */
    gemm->AddOutput(&product, C, Fmt_FP32);
    TsmExecute(&product);

    wdma->AddSrcDst(&store, C, arguments[2] + SINGLE * (row * n + column), Fmt_FP32);
    wdma->ConfigStrideIteration(&store, TILE, n, TILE, 0, 1, 0, 1);
    TsmExecute(&store);
}
