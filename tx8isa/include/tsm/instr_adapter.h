/* Handing packets to the engines, and what C code of that flow takes for granted around it. docs/crt.md */
#ifndef TSM_INSTR_ADAPTER_H
#define TSM_INSTR_ADAPTER_H

#include <stdbool.h>

#include "instr_adapter_plat.h"

/* Hand over a packet of any engine, told apart by its inter_type: 0, or 1 for a type that is no packet's. The
   packet is cleared. Those of count, argmax and argmin stay, and come back with param.wb_data0 and wb_data1. */
uint64_t TsmExecute(void *instr);

/* Where a load or a store finds SPM byte a. */
int8_t *get_spm_memory_mapping(uint64_t a);

/* Ends the program unless the condition holds. */
void RT_ASSERT(bool condition);

/* Between the two one tile is at a time (proposed). */
void atomic_barrier_in(void);
void atomic_barrier_out(void);

/* The place in the grid of the program that this tile runs: axis 0, 1 or 2. */
uint32_t __get_pid(uint32_t axis);
void __set_pid(uint32_t x, uint32_t y, uint32_t z);

#endif
