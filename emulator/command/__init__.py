"""What the command ``tx8emu`` consists of besides ``cli``: options, the manual of instructions, array files.

It knows no emulated chip.
"""
