"""The judge of kernels, ``tx8emu judge``, finds mistakes and says what to try (docs/judge.md).

``spec`` reads the specification, ``trial`` builds a kernel with inputs, ``judge`` runs it once under the
sanitizer, ``comparison`` and ``symptoms`` describe wrong results, and ``answer`` is the record of all
findings.
"""
