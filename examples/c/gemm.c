/* out = A x B in bf16 with FP32 sums and result, A [M, K] and B [N, K] row-major in DDR. */

#include <stdint.h>
#include <stdio.h>

#include <tx8.h>

enum { M = 48, K = 192, N = 64, WORKER = 0 };
enum { ROWS = 0x10000, A = 0x20000, B = 0x40000, OUT = 0x60000 };

uint16_t a[M * K], b[N * K];
float out[M * N];

/* A number whose bits 15:0 are zero, as bf16. */
static uint16_t bf16(float value) {
    union { float f; uint32_t u; } bits = {value};
    return (uint16_t)(bits.u >> 16);
}

/* Rows of K numbers from DDR into the layout of the matrix engine: blocks of 64 columns. */
static void load_matrix(uint32_t spm, const uint16_t *rows, unsigned count) {
    DMA_Param load = tx8_rdma(WORKER, TX8_BF16, ROWS, tx8_engine_address(rows), count * K);
    TD_Param align = tx8_td(WORKER, TX8_TD_CHANNELNORM, TX8_BF16);
    tx8_td_src0(&align, ROWS);
    tx8_td_dst(&align, spm);
    tx8_td_src0_tfr(&align, tx8_nhwc(1, 1, (uint16_t)count, K));
    tx8_td_dst_tfr(&align, tx8_nhwc(1, 1, (uint16_t)count, K));
    tx8_execute(&load);
    tx8_execute(&align);
}

int main(void) {
    if (tx8_tile() != 0)
        return 0;
    for (int i = 0; i < M * K; i++)
        a[i] = bf16((float)(i % 23 - 11));
    for (int i = 0; i < N * K; i++)
        b[i] = bf16((float)(i % 19 - 9) * 0.5f);
    tx8_clean(a, sizeof a); /* the engines read DDR, not the cache of the core */
    tx8_clean(b, sizeof b);

    load_matrix(A, a, M);
    load_matrix(B, b, N);
    TsmNeInstr gemm = tx8_ne(WORKER, TX8_NE_GEMM, TX8_BF16, TX8_FP32);
    tx8_ne_src_a(&gemm, A);
    tx8_ne_src_w(&gemm, B); /* gemm_r_trs 0: B is stored [N, K] */
    tx8_ne_out(&gemm, OUT);
    tx8_ne_gemm_m(&gemm, M);
    tx8_ne_gemm_n(&gemm, N);
    tx8_ne_gemm_k(&gemm, K);
    tx8_execute(&gemm);
    DMA_Param store = tx8_wdma(WORKER, TX8_FP32, tx8_engine_address(out), OUT, M * N);
    tx8_execute(&store); /* one block of 64 columns: the aligned result is row-major */
    tx8_wait(WORKER);
    tx8_invalidate(out, sizeof out);
    printf("out[0][0] = %g, out[%d][%d] = %g\n", (double)out[0], M - 1, N - 1, (double)out[M * N - 1]);
    return 0;
}
