.float 1.0, -0.5        # = 0000803f000000bf
.float 1e-6, 3          # = bd37863500004040
.double 0.1             # = 9a9999999999b93f
.float inf, -inf        # = 0000807f000080ff
