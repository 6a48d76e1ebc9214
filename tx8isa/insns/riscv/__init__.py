"""The records of the kernel core: RV64IMFDC, Zicsr, Zifencei, a file for each extension.

Their encoding formats are in ``tx8isa/riscv``.
"""
