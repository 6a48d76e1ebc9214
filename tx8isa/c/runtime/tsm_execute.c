/* Handing packets to the engines and waiting for them. */

#include <string.h>

#include <tx8.h>

#include "hints.h"
#include "instr_adapter.h"

/* Bit 31:0 of what an instruction returns; the packet stays as it is otherwise. */
static void take_results(CT_Param *packet) {
    const unsigned worker = tx8_worker_of(packet->inter_type);
    packet->wb_data0 = tx8_returned(worker, TX8_WB_DATA0);
    if (packet->opcode == TX8_CT_ARGMAX || packet->opcode == TX8_CT_ARGMIN)
        packet->wb_data1 = tx8_returned(worker, TX8_WB_DATA1);
}

static void execute_ct(CT_Param *packet) {
    tx8_ct_execute(packet);
    switch (packet->opcode) {
    case TX8_CT_COUNT:
    case TX8_CT_BITCOUNT:
    case TX8_CT_ARGMAX:
    case TX8_CT_ARGMIN:
        take_results(packet);
        break;
    default:
        memset(packet, 0, sizeof *packet);
    }
}

#define EXECUTE(call, type, packet)                                                                              \
    do {                                                                                                         \
        call((type *)(packet));                                                                                  \
        memset((packet), 0, sizeof(type));                                                                       \
    } while (0)

uint64_t TsmExecute(void *instr) {
    TX8_IN_LIBRARY;
    switch (*(const uint32_t *)instr & 0xff) {
    case I_CGRA:
        execute_ct(instr);
        return 0;
    case I_NEUR:
        EXECUTE(tx8_ne_execute, TsmNeInstr, instr);
        return 0;
    case I_RDMA:
        EXECUTE(tx8_rdma_execute, DMA_Param, instr);
        return 0;
    case I_WDMA:
        EXECUTE(tx8_wdma_execute, DMA_Param, instr);
        return 0;
    case I_TDMA:
        EXECUTE(tx8_td_execute, TD_Param, instr);
        return 0;
    default:
        return 1;
    }
}

uint8_t TsmWaitfinish_bywork(size_t worker) {
    tx8_wait((unsigned)worker);
    return 0;
}

uint8_t TsmWaitfinish(void) {
    return TsmWaitfinish_bywork(0);
}
