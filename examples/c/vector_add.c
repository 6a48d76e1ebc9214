/* c = a + b on the vector engine, once for 1000 elements; then what is largest in c, and where. */

#include <stdint.h>
#include <stdio.h>

#include <tx8.h>

enum { N = 1000, A = 0x10000, B = 0x11000, C = 0x12000, WORKER = 0 };

_Alignas(TX8_CACHE_LINE) float a[N], b[N], c[N];
_Alignas(TX8_CACHE_LINE) uint32_t largest[2]; /* raw bits, index; not in a line of c */

int main(void) {
    if (tx8_tile() != 0)
        return 0;
    for (int i = 0; i < N; i++) {
        a[i] = 0.25f * (float)(i % 37) - 3.0f;
        b[i] = 1.0f / (float)(i + 1);
    }
    tx8_clean(a, sizeof a); /* the engines read DDR, not the cache of the core */
    tx8_clean(b, sizeof b);

    DMA_Param load_a = tx8_rdma(WORKER, TX8_FP32, A, tx8_engine_address(a), N);
    DMA_Param load_b = tx8_rdma(WORKER, TX8_FP32, B, tx8_engine_address(b), N);
    CT_Param add = tx8_ct(WORKER, TX8_CT_ADD_VV, TX8_FP32);
    tx8_ct_src0(&add, A);
    tx8_ct_src1(&add, B);
    tx8_ct_dst0(&add, C);
    tx8_ct_elem_count(&add, N);
    CT_Param argmax = tx8_ct(WORKER, TX8_CT_ARGMAX, TX8_FP32);
    tx8_ct_src0(&argmax, C);
    tx8_ct_elem_count(&argmax, N);
    DMA_Param store = tx8_wdma(WORKER, TX8_FP32, tx8_engine_address(c), C, N);

    tx8_execute(&load_a); /* the engines wait for each other where their bytes overlap */
    tx8_execute(&load_b);
    tx8_execute(&add);
    tx8_execute(&store);
    tx8_execute(&argmax);
    largest[0] = tx8_returned(WORKER, TX8_WB_DATA0);
    largest[1] = tx8_returned(WORKER, TX8_WB_DATA1);
    tx8_wait(WORKER);
    tx8_invalidate(c, sizeof c);

    for (int i = 0; i < N; i++)
        if (c[i] != a[i] + b[i]) {
            printf("c[%d] is %.9g, expected %.9g\n", i, (double)c[i], (double)(a[i] + b[i]));
            return 1;
        }
    printf("the largest is c[%u] = %.9g\n", (unsigned)largest[1], (double)c[largest[1]]);
    return 0;
}
