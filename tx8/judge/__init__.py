"""The judge of kernels, ``tx8emu judge``: what is wrong, and what to try (docs/judge.md).

``spec`` reads what a kernel must compute, ``trial`` builds it with inputs, ``judge`` runs it once under the
sanitizer, ``comparison`` and ``symptoms`` describe wrong results, and ``answer`` is the record of it all.
"""
