"""Several chips in one emulation: links between them, messages on the links, and the time they agree on.

``mesh.ChipMesh`` is a loaded program on all chips; ``linked_chip.LinkedChip`` is one of them, which shares
nothing with the others but messages.
"""
