"""Code that the command line tools share: options, files, and the folder of the caches.

It knows nothing of the chip.
"""
