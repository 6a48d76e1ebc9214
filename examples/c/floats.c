/* The kernel core's own floating point: float and double, fused multiply-add, conversions, the C library. */

#include <fenv.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>

#include <tx8.h>

enum { N = 64 };

double squares[N], harmonic, polynomial;
float singles[N];
int64_t integers[N];
unsigned flags;

int main(void) {
    if (tx8_tile() != 0)
        return 0;
    for (int i = 0; i < N; i++) {
        squares[i] = sqrt((double)i);
        singles[i] = (float)i / 3.0f;
        integers[i] = (int64_t)(squares[i] * 1e6);
        polynomial = fma(polynomial, 0.9375, singles[i]);
    }
    for (int i = 1; i <= 1000; i++)
        harmonic += 1.0 / i;
    feclearexcept(FE_ALL_EXCEPT);
    volatile double one = 1.0, zero = 0.0;
    volatile double infinity = one / zero;
    flags = (unsigned)fetestexcept(FE_ALL_EXCEPT);
    printf("%.17g %.17g %g\n", harmonic, polynomial, infinity);
    printf("%.9g %.9g\n", (double)expf(1.0f), sin(0.5));
    return 0;
}
