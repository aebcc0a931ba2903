// Makes distinct user stacks: stacks COUNT PAUSE
//
// Each number below COUNT (at most 65536) has a call path of its own, one of four functions for each two
// bits of it, with a page allocation at its end. After each 100 numbers it sleeps for PAUSE us.
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define DIGITS 8

static char *page;
static volatile unsigned after;

__attribute__((noinline)) void leaf(void) {
    madvise(page, 4096, MADV_DONTNEED);
    *(volatile char *)page = 1;
    after++;
}

typedef void path(unsigned number, int digits);
path path0, path1, path2, path3;
static path *const paths[] = {path0, path1, path2, path3};

// The counter keeps the call from being a jump, which would leave no frame.
#define PATH(name)                                                                                     \
    __attribute__((noinline)) void name(unsigned number, int digits) {                                 \
        if (digits == 0)                                                                               \
            leaf();                                                                                    \
        else                                                                                           \
            paths[number & 3](number >> 2, digits - 1);                                                \
        after++;                                                                                       \
    }
PATH(path0)
PATH(path1)
PATH(path2)
PATH(path3)

int main(int argc, char **argv) {
    if (argc != 3) return 2;
    page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) return 1;
    unsigned count = atoi(argv[1]), pause = atoi(argv[2]);
    for (unsigned number = 0; number < count; number++) {
        path0(number, DIGITS);
        if (pause != 0 && number % 100 == 99) usleep(pause);
    }
}
