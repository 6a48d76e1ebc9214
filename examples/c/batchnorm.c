/* y = (x - mean) / sqrt(variance + 1e-6) * scale + shift for each channel, x and y FP16, the work in FP32.

   x is [H*W, C] row-major in DDR. On the chip it is spread into blocks of 64 channels and a narrower tail. Then
   one instruction in the loop form does all blocks, and one with a short vector the tail. */

#include <stdint.h>
#include <stdio.h>

#include <tx8.h>

enum { H = 6, W = 5, HW = H * W, C = 148, WORKER = 0 };
enum { BLOCK = 64, BLOCKS = C / BLOCK, TAIL = 32, STORED = BLOCKS * BLOCK + TAIL }; /* 20 channels are stored as 32 */
enum { ROWS = 0x10000, X16 = 0x20000, X32 = 0x30000, MEAN = 0x50000, FACTOR = 0x51000, SCALE = 0x52000, SHIFT = 0x53000 };

uint16_t x[HW * C], y[HW * C];
float mean[STORED], variance[STORED], scale[STORED], shift[STORED]; /* as stored: the last 12 are not used */

static void load(uint32_t spm, const void *source, uint8_t format, uint32_t elements) {
    DMA_Param p = tx8_rdma(WORKER, format, spm, tx8_engine_address(source), elements);
    tx8_execute(&p);
}

static void vector(uint8_t opcode, uint8_t format, uint32_t dst, uint32_t src0, uint32_t src1, uint64_t elements) {
    CT_Param p = tx8_ct(WORKER, opcode, format);
    tx8_ct_src0(&p, src0);
    tx8_ct_src1(&p, src1);
    tx8_ct_dst0(&p, dst);
    tx8_ct_elem_count(&p, elements);
    tx8_execute(&p);
}

/* X32 = X32 op v, where v has one number for each channel. */
static void by_channel(uint8_t loop, uint8_t plain, uint32_t v) {
    CT_Param p = tx8_ct(WORKER, loop, TX8_FP32);
    tx8_ct_src0(&p, X32);
    tx8_ct_dst0(&p, X32);
    tx8_ct_src1(&p, v);
    tx8_ct_elem_count(&p, HW * BLOCK);
    tx8_ct_unit_elem_count(&p, BLOCK);
    tx8_ct_full_elem_count(&p, BLOCKS * HW * BLOCK);
    tx8_ct_full_unit_elem_count(&p, BLOCKS * BLOCK);
    tx8_execute(&p);

    p = tx8_ct(WORKER, plain, TX8_FP32);
    tx8_ct_src0(&p, X32 + BLOCKS * HW * BLOCK * 4);
    tx8_ct_dst0(&p, X32 + BLOCKS * HW * BLOCK * 4);
    tx8_ct_src1(&p, v + BLOCKS * BLOCK * 4);
    tx8_ct_elem_count(&p, HW * TAIL);
    tx8_ct_unit_elem_count(&p, TAIL);
    tx8_execute(&p);
}

/* Channels first..first+count of the aligned result, at `from`, to their places in rows of C. */
static void gather(uint32_t from, unsigned first, unsigned width, unsigned count) {
    TD_Param p = tx8_td(WORKER, TX8_TD_GATHERSCATTER, TX8_FP16);
    tx8_td_src0(&p, from);
    tx8_td_dst(&p, ROWS + 2 * first);
    tx8_td_elem_count(&p, 2 * count);
    tx8_td_src_stride0(&p, 2 * width);
    tx8_td_src_iteration0(&p, HW);
    tx8_td_dst_stride0(&p, 2 * C);
    tx8_td_dst_iteration0(&p, HW);
    tx8_execute(&p);
}

static void make_data(void) {
    for (int i = 0; i < HW * C; i++)
        x[i] = (uint16_t)(0x3800 + i % 1531); /* 0.5 to 2 */
    for (int i = 0; i < C; i++) {
        mean[i] = 1.0f + 0.001f * (float)i;
        variance[i] = 0.5f + 0.01f * (float)(i % 7);
        scale[i] = 1.0f - 0.002f * (float)i;
        shift[i] = 0.25f * (float)(i % 5);
    }
    tx8_clean(x, sizeof x); /* the engines read DDR, not the cache of the core */
    tx8_clean(mean, sizeof mean);
    tx8_clean(variance, sizeof variance);
    tx8_clean(scale, sizeof scale);
    tx8_clean(shift, sizeof shift);
}

int main(void) {
    if (tx8_tile() != 0)
        return 0;
    make_data();
    load(ROWS, x, TX8_FP16, HW * C);
    load(MEAN, mean, TX8_FP32, STORED);
    load(FACTOR, variance, TX8_FP32, STORED);
    load(SCALE, scale, TX8_FP32, STORED);
    load(SHIFT, shift, TX8_FP32, STORED);

    TD_Param spread = tx8_td(WORKER, TX8_TD_CHANNELNORM, TX8_FP16);
    tx8_td_src0(&spread, ROWS);
    tx8_td_dst(&spread, X16);
    tx8_td_src0_tfr(&spread, tx8_nhwc(1, H, W, C));
    tx8_td_dst_tfr(&spread, tx8_nhwc(1, H, W, C));
    tx8_execute(&spread);
    vector(TX8_CT_CVT_FP16_FP32, TX8_FP16, X32, X16, 0, HW * STORED);

    union { float f; uint32_t u; } epsilon = {1e-6f};
    vector(TX8_CT_ADD_VS, TX8_FP32, FACTOR, FACTOR, epsilon.u, STORED);
    vector(TX8_CT_RSQRT_V, TX8_FP32, FACTOR, FACTOR, 0, STORED);

    by_channel(TX8_CT_SUB_VUV_LOOP, TX8_CT_SUB_VUV, MEAN);
    by_channel(TX8_CT_MUL_VUV_LOOP, TX8_CT_MUL_VUV, FACTOR);
    by_channel(TX8_CT_MUL_VUV_LOOP, TX8_CT_MUL_VUV, SCALE);
    by_channel(TX8_CT_ADD_VUV_LOOP, TX8_CT_ADD_VUV, SHIFT);

    vector(TX8_CT_CVT_FP32_FP16, TX8_FP32, X16, X32, 0, HW * STORED);
    for (unsigned block = 0; block < BLOCKS; block++)
        gather(X16 + block * HW * BLOCK * 2, block * BLOCK, BLOCK, BLOCK);
    gather(X16 + BLOCKS * HW * BLOCK * 2, BLOCKS * BLOCK, TAIL, C - BLOCKS * BLOCK);
    DMA_Param store = tx8_wdma(WORKER, TX8_FP16, tx8_engine_address(y), ROWS, HW * C);
    tx8_execute(&store);
    tx8_wait(WORKER);
    tx8_invalidate(y, sizeof y);
    printf("y[0] = 0x%04x, y[%d] = 0x%04x\n", y[0], HW * C - 1, y[HW * C - 1]);
    return 0;
}
