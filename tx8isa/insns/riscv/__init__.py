"""The records of the kernel core: RV64IMFD, Zicsr, Zifencei, a file for each extension.

Their encoding formats are in ``tx8isa/riscv``.
"""
