"""The formats and the floating-point arithmetic of the RISC-V instructions of the kernel core.

Source: RISC-V manual, volume I (spec). The instructions themselves are in ``insns/riscv``.
"""
