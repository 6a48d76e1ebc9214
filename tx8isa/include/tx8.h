/* Programming a TX81 tile from C: packets, registers, copies between tiles. docs/c.md explains it.

   C11, freestanding; every function is static inline and there is nothing to link. Addresses without another
   word are those of the kernel core; operands of engines are SPM bytes from 0 or tx8_engine_address. */
#ifndef TX8_H
#define TX8_H

#include "tx8_packets.h"

/* --- The tile ------------------------------------------------------------------------------------------- */

/* Chip and tile of this kernel core: chip * 16 + tile. */
static inline unsigned tx8_hart(void) {
    uintptr_t hart;
    __asm__ volatile("csrr %0, mhartid" : "=r"(hart));
    return (unsigned)hart;
}

static inline unsigned tx8_tile(void) {
    return tx8_hart() % TX8_TILES;
}

/* SPM byte a for loads and stores: weakly ordered, so tx8_fence orders them with the registers. */
static inline void *tx8_spm(uint32_t a) {
    return (void *)(TX8_SPM_WEAK + (uintptr_t)a);
}

/* The same byte, strongly ordered. */
static inline void *tx8_spm_strong(uint32_t a) {
    return (void *)(TX8_SPM_STRONG + (uintptr_t)a);
}

/* A DDR object as RDMA, WDMA and DTE name it. The pointer may be cached or uncached. */
static inline uint64_t tx8_engine_address(const volatile void *pointer) {
    const uintptr_t a = (uintptr_t)pointer;
    return a - (a >= TX8_DDR_UNCACHED ? TX8_DDR_UNCACHED : TX8_DDR_CACHED) + TX8_DDR_ENGINE;
}

/* A DDR object past the cache, for words that tiles share. */
static inline volatile void *tx8_uncached(volatile void *pointer) {
    return (volatile void *)((uintptr_t)pointer - TX8_DDR_CACHED + TX8_DDR_UNCACHED);
}

/* Wait until all tiles of the set have come here: bit t is tile t, 0 all tiles. Engines and copies of this tile
   must be complete. The instruction is proposed: the chip's runtime has a barrier for all tiles only. */
static inline void tx8_barrier(uint64_t tiles) {
    register uint64_t set __asm__("a0") = tiles;
    __asm__ volatile(TX8_BARRIER_A0 : : "r"(set) : "memory");
}

/* --- Packets -------------------------------------------------------------------------------------------- */

/* Packed operands. x runs along w, y along h. */
static inline uint64_t tx8_lanes(uint16_t a, uint16_t b, uint16_t c, uint16_t d) {
    return (uint64_t)a << 48 | (uint64_t)b << 32 | (uint64_t)c << 16 | d;
}

static inline uint64_t tx8_nhwc(uint16_t n, uint16_t h, uint16_t w, uint16_t c) {
    return tx8_lanes(n, h, w, c);
}

static inline uint64_t tx8_pads(uint16_t top, uint16_t bottom, uint16_t left, uint16_t right) {
    return tx8_lanes(top, bottom, left, right);
}

static inline uint64_t tx8_kernel_stride(uint16_t kx, uint16_t ky, uint16_t sx, uint16_t sy) {
    return tx8_lanes(kx, ky, sx, sy);
}

static inline uint64_t tx8_dilation(uint16_t x, uint16_t y) {
    return tx8_lanes(0, 0, x, y);
}

static inline uint32_t tx8_inter_type(unsigned engine, unsigned worker) {
    return engine | worker << TX8_WORKER_SHIFT;
}

/* Packets with everything at rest that has a state of rest: one trip of each loop, one matrix, dilation 1. */
static inline CT_Param tx8_ct(unsigned worker, uint8_t opcode, uint8_t format) {
    CT_Param p = {.inter_type = tx8_inter_type(TX8_ENGINE_CT, worker)};
    p.opcode = opcode;
    p.src0_format = format;
    return p;
}

static inline TsmNeInstr tx8_ne(unsigned worker, uint8_t type, uint8_t input_format, uint8_t output_format) {
    TsmNeInstr p = {.inter_type = tx8_inter_type(TX8_ENGINE_NE, worker)};
    p.type = type;
    p.input_format = input_format;
    p.output_format = output_format;
    p.inpsum_format = TX8_FP32;
    p.gemm_lb = p.gemm_rb = 1;
    p.dilation = tx8_dilation(1, 1);
    return p;
}

/* DDR to SPM. Strides in bytes, on the DDR side. */
static inline DMA_Param tx8_rdma(unsigned worker, uint8_t format, uint32_t spm, uint64_t ddr, uint32_t elements) {
    DMA_Param p = {.inter_type = tx8_inter_type(TX8_ENGINE_RDMA, worker)};
    p.format = format;
    p.dst = spm;
    p.src = ddr;
    p.elem_count = elements;
    return p;
}

/* SPM to DDR. */
static inline DMA_Param tx8_wdma(unsigned worker, uint8_t format, uint64_t ddr, uint32_t spm, uint32_t elements) {
    DMA_Param p = {.inter_type = tx8_inter_type(TX8_ENGINE_WDMA, worker)};
    p.format = format;
    p.dst = ddr;
    p.src = spm;
    p.elem_count = elements;
    return p;
}

static inline TD_Param tx8_td(unsigned worker, uint8_t opcode, uint8_t format) {
    TD_Param p = {.inter_type = tx8_inter_type(TX8_ENGINE_TDMA, worker)};
    p.opcode = opcode;
    p.src0_format = format;
    p.src_iteration0 = p.src_iteration1 = p.src_iteration2 = 1;
    p.dst_iteration0 = p.dst_iteration1 = p.dst_iteration2 = 1;
    return p;
}

static inline void tx8_dma_execute(DMA_Param *p) {
    if ((p->inter_type & 0xff) == TX8_ENGINE_RDMA)
        tx8_rdma_execute(p);
    else
        tx8_wdma_execute(p);
}

/* Hand an instruction to its engine; it completes later (tx8_wait). The packet stays as it is but for its end
   addresses, and may be used again. */
#define tx8_execute(p)                                                                                           \
    _Generic((p), CT_Param *: tx8_ct_execute, TsmNeInstr *: tx8_ne_execute, DMA_Param *: tx8_dma_execute,        \
             TD_Param *: tx8_td_execute)(p)

/* --- The worker's registers ----------------------------------------------------------------------------- */

/* A register of a worker's window, by its offset (TX8_IB_STATUS and others). */
static inline uint64_t tx8_csr(unsigned worker, unsigned offset) {
    return tx8_get64(tx8_window(worker) + offset);
}

static inline void tx8_set_csr(unsigned worker, unsigned offset, uint64_t value) {
    tx8_put64(tx8_window(worker) + offset, value);
}

/* Whether everything that was handed to this worker is complete. */
static inline int tx8_done(unsigned worker) {
    return (int)(tx8_csr(worker, TX8_IB_STATUS) >> TX8_IB_STATUS_TASK_DONE_SHIFT & TX8_IB_STATUS_TASK_DONE_MASK);
}

/* Wait for a worker; what its engines wrote may be read afterwards. */
static inline void tx8_wait(unsigned worker) {
    while (!tx8_done(worker)) {
    }
    tx8_fence();
}

/* The exceptions of a unit's field: 8 bits, for example TX8_EXCEPTION_CT_SHIFT. */
static inline unsigned tx8_exceptions(unsigned worker, unsigned field_shift) {
    return (unsigned)(tx8_csr(worker, TX8_EXCEPTION) >> field_shift) & 0xff;
}

static inline void tx8_clear_exceptions(unsigned worker) {
    const uint64_t mask = tx8_csr(worker, TX8_EXCEPTION_MASK);
    tx8_set_csr(worker, TX8_EXCEPTION_MASK, mask | (uint64_t)1 << TX8_EXCEPTION_MASK_CLEAR_SHIFT);
}

/* The data that count, bitcount, argmax or argmin returned: TX8_WB_DATA0 or TX8_WB_DATA1. Waits for it. */
static inline uint32_t tx8_returned(unsigned worker, unsigned offset) {
    uint64_t data;
    do
        data = tx8_csr(worker, offset);
    while (!(data >> TX8_WB_VALID_BIT & 1));
    return (uint32_t)data;
}

/* --- DTE: copies between tiles -------------------------------------------------------------------------- */

/* 32-bit registers of a block (spec). */
enum tx8_dte_register {
    TX8_DTE_SRC = 0x000,
    TX8_DTE_DST0 = 0x008,
    TX8_DTE_USER_ID0 = 0x010,
    TX8_DTE_MODE = 0x014,
    TX8_DTE_LENGTH = 0x018,
    TX8_DTE_DEST_NUM = 0x01c,
    TX8_DTE_SRC_LOOPS = 0x020,
    TX8_DTE_CMD_VALID = 0x038,
    TX8_DTE_STATUS = 0x040,
    TX8_DTE_DST = 0x050,
    TX8_DTE_USER_ID = 0x148,
    TX8_DTE_DST_LOOPS = 0x1e0,
};

enum tx8_dte_mode {
    TX8_DTE_UNICAST = 0,
    TX8_DTE_SCATTER = 1,
    TX8_DTE_BROADCAST = 2,
    TX8_DTE_SHUFFLE = 3,
    /* Added to a mode: */
    TX8_DTE_GATHER = 1 << 8,     /* unicast through the three loops of the source */
    TX8_DTE_2D = 1 << 16,        /* unicast through its first loop */
    TX8_DTE_OUT_SLICE = 1 << 24, /* the loops are those of the destination */
};

enum tx8_dte_result { TX8_DTE_FINISHED = 0, TX8_DTE_BUSY = 1, TX8_DTE_FAILED = -11 };

static inline void tx8_put32(uintptr_t address, uint32_t value) {
    *(volatile uint32_t *)address = value;
}

static inline uint32_t tx8_get32(uintptr_t address) {
    return *(volatile uint32_t *)address;
}

static inline void tx8_put_pair(uintptr_t address, uint64_t value) {
    tx8_put32(address, (uint32_t)value);
    tx8_put32(address + 4, (uint32_t)(value >> 32));
}

/* Address of the registers of a block, 1..3: block 0 belongs to the chip's special core. */
static inline uintptr_t tx8_dte_attach(unsigned block) {
    return TX8_DTE + (uintptr_t)block * TX8_DTE_STRIDE;
}

/* An address of another tile: an SPM byte, or in the engines' view DDR, which all tiles share. */
static inline uint64_t tx8_dte_remote(unsigned tile, uint64_t address) {
    return (uint64_t)tile << 40 | address;
}

/* A user id that counts the bytes for a packet of a stream of the receiver (tx8_fsm_open). */
static inline uint32_t tx8_dte_stream(unsigned stream, unsigned packet) {
    return (stream & 63) | packet << 10 | (stream > 32 ? 1u << 7 : 0) | 0x240 | 1u << 15;
}

/* Destination i, 0..31, and its user id (0: no stream). */
static inline void tx8_dte_destination(uintptr_t dte, unsigned i, uint64_t destination, uint32_t user_id) {
    tx8_put_pair(i ? dte + TX8_DTE_DST + 8 * (i - 1) : dte + TX8_DTE_DST0, destination);
    tx8_put32(i ? dte + TX8_DTE_USER_ID + 4 * (i - 1) : dte + TX8_DTE_USER_ID0, user_id);
}

/* Loop level 0..2 of the source, or with TX8_DTE_DST_LOOPS of the destination: stride in bytes. */
static inline void tx8_dte_loop(uintptr_t dte, unsigned side, unsigned level, uint32_t stride, uint32_t trips) {
    tx8_put32(dte + side + 8 * level, stride);
    tx8_put32(dte + side + 8 * level + 4, trips - 1);
}

/* A copy of length bytes to `destinations` destinations, without loops. */
static inline void tx8_dte_config(uintptr_t dte, uint32_t mode, uint64_t source, uint32_t length,
                                  unsigned destinations) {
    tx8_put_pair(dte + TX8_DTE_SRC, source);
    tx8_put32(dte + TX8_DTE_MODE, mode);
    tx8_put32(dte + TX8_DTE_LENGTH, length);
    tx8_put32(dte + TX8_DTE_DEST_NUM, destinations - 1);
    for (unsigned level = 0; level < 3; level++) {
        tx8_dte_loop(dte, TX8_DTE_SRC_LOOPS, level, 0, 1);
        tx8_dte_loop(dte, TX8_DTE_DST_LOOPS, level, 0, 1);
    }
}

static inline void tx8_dte_trigger(uintptr_t dte) {
    tx8_fence();
    tx8_put32(dte + TX8_DTE_CMD_VALID, 1);
}

static inline enum tx8_dte_result tx8_dte_poll(uintptr_t dte) {
    const uint32_t status = tx8_get32(dte + TX8_DTE_STATUS);
    if (!(status & 1))
        return TX8_DTE_BUSY;
    return status >> 8 & 1 ? TX8_DTE_FAILED : TX8_DTE_FINISHED;
}

/* Forget the status of the last copy, so that the block is free for the next. */
static inline void tx8_dte_release(uintptr_t dte) {
    tx8_put32(dte + TX8_DTE_STATUS, 1u | 1u << 8);
}

/* Start a configured copy, wait for it, release the block. */
static inline enum tx8_dte_result tx8_dte_run(uintptr_t dte) {
    enum tx8_dte_result result;
    tx8_dte_trigger(dte);
    while ((result = tx8_dte_poll(dte)) == TX8_DTE_BUSY) {
    }
    tx8_dte_release(dte);
    tx8_fence();
    return result;
}

/* --- Streams: what arrives ------------------------------------------------------------------------------ */

enum tx8_fsm_register {
    TX8_FSM = 0x620000,
    TX8_FSM_CFG = 0x0e8,
    TX8_FSM_BASE_ADDR = 0x1f0,
    TX8_FSM_PACKET_STA = 0x7a8,
    TX8_FSM_PACKET_CNT = 0x8a8,
};

/* Prepare a stream of this tile for packets of length bytes each, the first at SPM byte `base`. */
static inline void tx8_fsm_open(unsigned stream, uint32_t base, uint32_t length, unsigned packets) {
    tx8_put_pair(TX8_FSM + TX8_FSM_BASE_ADDR + 8 * stream, base);
    tx8_put32(TX8_FSM + TX8_FSM_CFG + 4 * stream, 1u << 31 | (packets - 1) << 24 | length);
}

static inline void tx8_fsm_close(unsigned stream) {
    tx8_put32(TX8_FSM + TX8_FSM_CFG + 4 * stream, 0);
}

static inline int tx8_fsm_ready(unsigned stream, unsigned packet) {
    return (int)(tx8_get32(TX8_FSM + TX8_FSM_PACKET_STA + 4 * stream) >> packet & 1);
}

static inline uint32_t tx8_fsm_received(unsigned stream, unsigned packet) {
    return tx8_get32(TX8_FSM + TX8_FSM_PACKET_CNT + 4 * (32 * stream + packet)) & 0xffffff;
}

/* Make a packet's place free for the next: its ready bit and its count. */
static inline void tx8_fsm_clear(unsigned stream, unsigned packet) {
    tx8_put32(TX8_FSM + TX8_FSM_PACKET_STA + 4 * stream, 1u << packet);
    tx8_put32(TX8_FSM + TX8_FSM_PACKET_CNT + 4 * (32 * stream + packet), 0xffffffff);
}

/* Tell another tile that a packet of one of its streams is complete. */
static inline void tx8_packet_update(unsigned tile, unsigned stream, unsigned packet) {
    const uintptr_t counter = 0x670000 + ((uintptr_t)(tile + 0x10000) << 23);
    tx8_put32(counter, 1u | packet << 4 | stream << 12);
}

/* --- The kernel core ------------------------------------------------------------------------------------ */

/* The SCALAR unit: one operation on the raw bits of a value, through a worker. */
static inline uint32_t tx8_scalar(unsigned worker, uint8_t opcode, uint8_t format, uint32_t bits) {
    SC_Param p = {.format = format, .opcode = opcode, .srcs = bits};
    tx8_sc_execute(&p, worker);
    tx8_wait(worker);
    return (uint32_t)tx8_csr(worker, TX8_SC_RESULT);
}

/* Code that was written as data is fetched after this. */
static inline void tx8_fence_code(void) {
    __asm__ volatile("fence.i" ::: "memory");
}

#endif
