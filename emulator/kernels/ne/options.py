"""What an instruction says besides shapes and addresses, as int64 words at an address.

The kernel of a record writes them to the beginning of the scratch, followed by copies of the vectors of bias
and scales: so a result may overlap those.
"""

from __future__ import annotations

MAX_CHANNELS = 16384

BIAS, SCALE_P, SCALE_N, RELU, LRELU, ZERO_A, ZERO_B, ZERO_OUT, Q1, Q0 = range(10)
"""Host addresses of the vectors, 0 when they are not given; flags; signed zero points; shifts."""
WORDS = 16
BIAS_AT = 8 * WORDS
SCALE_P_AT = BIAS_AT + 4 * MAX_CHANNELS
SCALE_N_AT = SCALE_P_AT + 4 * MAX_CHANNELS
OPTIONS_BYTES = SCALE_N_AT + 4 * MAX_CHANNELS
