// Two functions that share the CPU as ordered: split SECONDS PERCENT
//
// Runs for SECONDS of CPU time, PERCENT of it in heavy(), the rest in light(), in chunks of some ten
// microseconds in random order, so that neither a sampling period nor a change of the CPU's speed can
// favour one of them. Prints the chunks that each was given and the CPU time, ns.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

// Both take the same instructions; the constants keep compilers from making one function of them.
#define CHUNK(name, constant)                                                                          \
    __attribute__((noinline)) void name(uint64_t *state) {                                             \
        for (int i = 0; i < 10000; i++)                                                                \
            *(volatile uint64_t *)state = *state * 6364136223846793005ull + constant;                  \
    }
CHUNK(heavy, 1442695040888963407ull)
CHUNK(light, 1442695040888963409ull)

static uint64_t cpu_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return now.tv_sec * 1000000000ull + now.tv_nsec;
}

int main(int argc, char **argv) {
    if (argc != 3) return 2;
    uint64_t end = atof(argv[1]) * 1e9, percent = atoi(argv[2]), state = 1, chunks[2] = {0, 0};
    unsigned random = 1;
    while (cpu_ns() < end) {
        // Asking for the time is a system call of its own, so not often.
        for (int i = 0; i < 200; i++) {
            random = random * 1103515245 + 12345;
            int is_light = (random >> 16) % 100 >= percent;
            (is_light ? light : heavy)(&state);
            chunks[is_light]++;
        }
    }
    printf("heavy %lu\nlight %lu\ncpu_ns %lu\n", chunks[0], chunks[1], cpu_ns());
}
