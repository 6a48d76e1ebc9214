"""Several chips in one emulation: links between them, messages on the links, and their common time.

``mesh.ChipMesh`` is a loaded program on all chips; ``linked_chip.LinkedChip`` is one of them, which shares
only messages with the others.
"""
