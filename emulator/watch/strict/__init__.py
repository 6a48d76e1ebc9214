"""The sanitizer of ``--strict``: what every byte was last written and read by, and in which order.

docs/strict.md says what it finds. ``shadow`` keeps that for every byte of the memories and compares accesses,
``checks`` and ``core_checks`` tell it of those of the engines and of the kernel core, as compiled code;
``sanitizer`` sets both up and follows what orders tiles, workers and copies; ``hazards`` turns what was found
into words.
"""
