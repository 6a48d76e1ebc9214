/* What compilers turn into unusual directives: test_gcc.py compiles it with many options. */
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

extern int printf(const char *, ...);
extern int weak_undefined(int) __attribute__((weak));
extern int weak_data __attribute__((weak));
static int alias_of_elsewhere(int) __attribute__((weakref("elsewhere")));

int global_a = 5;
static int static_b;
int tentative[10];
const char *name = "h\303\251llo \"q\" \\ \t\n\x01z";
const char text[] = "abc\0def\xff";
double table[] = {1.5, -2.25, 1e300};
float single = 3.14f;
long double quad = 1.25L;
__thread int thread_data = 7;
__thread int thread_zeros[4];
static __thread long thread_static;
struct { char c; short s; int i; long l; double d; void *p; } mixed = {1, 2, 3, 4, 5.0, &global_a};

__attribute__((weak)) int weak_defined(int x) { return x + 1; }
__attribute__((visibility("hidden"))) int hidden(int x) { return x * 3; }
__attribute__((visibility("protected"))) int guarded(int x) { return x * 5; }
static int original(int x) { return x ^ 3; }
int alias(int x) __attribute__((alias("original")));
__attribute__((section(".text.special"))) int special(int x) { return x - 1; }
__attribute__((constructor)) void set_up(void) { static_b = 9; }
__attribute__((destructor)) void tear_down(void) { static_b = 8; }
__attribute__((noinline, cold)) int cold(int x) { return printf("cold %d\n", x); }
void *addresses[] = {&global_a, (char *)tentative + 8, special, (void *)-1L, 0};

int switched(int x) {
    switch (x) {
    case 0: return 11;
    case 1: return cold(2);
    case 2: return 33;
    case 3: return special(4);
    case 4: return 7;
    case 5: return x * x;
    case 6: return printf("six");
    default: return -1;
    }
}

int computed(int x) {
    static void *labels[] = {&&a, &&b, &&c};
    goto *labels[x % 3];
a:
    return 1;
b:
    return printf("b");
c:
    return 3;
}

int variadic(int n, ...) {
    va_list rest;
    va_start(rest, n);
    int sum = 0;
    while (n--) sum += va_arg(rest, int);
    va_end(rest);
    return sum;
}

float floats(float a, double b, int c) { return a * (float)b + c / 3.0f - (a > b ? 1.0f : (float)c); }
uint64_t constants(uint64_t a) { return a * 0x123456789abcdef1ULL + 0xfedcba9876543210ULL; }
int threads(void) { thread_data++; thread_zeros[2] += thread_data; return thread_static += 3; }
int references(void) {
    return weak_defined(2) + (weak_undefined ? weak_undefined(3) : 0) + (&weak_data ? weak_data : 1) + hidden(1) +
           guarded(2) + alias(3) + (alias_of_elsewhere ? alias_of_elsewhere(2) : 4);
}

void by_hand(int *p) {
    __asm__ volatile("1: lw t0, 0(%0)\n\tbnez t0, 1b\n\tcsrr t1, mhartid; add t1, t1, 4" ::"r"(p) : "t0", "t1");
    __asm__ volatile(".macro dbl r; add \\r, \\r, \\r; .endm; dbl t0; .purgem dbl\n\t.if 1; nop; .endif" ::: "t0");
}

struct Large { int a[100]; };
struct Large returned(struct Large s, int i) { s.a[i] = 5; return s; }
long long_arithmetic(long a, long b) { return a / b + a % b + (a << (b & 7)) + (a >> 3); }
int library(char *d, const char *s) { memcpy(d, s, 100); memset(d, 3, 50); return strlen(d); }

int far(int x, int *p) {
#define ONE if (x == p[__COUNTER__]) { x += p[x & 3] * 3; p[x & 7] = x; } else if (x > 5000) goto out;
#define TEN ONE ONE ONE ONE ONE ONE ONE ONE ONE ONE
#define HUNDRED TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN
    HUNDRED HUNDRED HUNDRED
out:
    return x;
}

int main(void) {
    return switched(2) + computed(1) + variadic(2, 3, 4) + threads() + references() + global_a;
}
