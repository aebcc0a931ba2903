// Takes pages from the kernel: faults SMALL LARGE
//
// Faults SMALL MiB in page by page, then LARGE MiB in huge pages where the kernel has them, giving back
// every 64 MiB what it holds. Prints the page faults as the kernel counts them for this process.
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#define PIECE (64ul << 20)

__attribute__((noinline)) void touch(char *memory, size_t page) {
    for (size_t i = 0; i < PIECE; i += page)
        ((volatile char *)memory)[i] = 1;
}

int main(int argc, char **argv) {
    if (argc != 3) return 2;
    char *memory =
        mmap(NULL, 2 * PIECE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) return 1;
    memory += PIECE - (unsigned long)memory % PIECE;

    struct rusage before, after;
    getrusage(RUSAGE_SELF, &before);
    prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
    for (long mib = atol(argv[1]); mib > 0; mib -= PIECE >> 20) {
        touch(memory, 4096);
        madvise(memory, PIECE, MADV_DONTNEED);
    }
    getrusage(RUSAGE_SELF, &after);
    printf("faults %ld\n", after.ru_minflt - before.ru_minflt);

    prctl(PR_SET_THP_DISABLE, 0, 0, 0, 0);
    madvise(memory, PIECE, MADV_HUGEPAGE);
    for (long mib = atol(argv[2]); mib > 0; mib -= PIECE >> 20) {
        touch(memory, 4096);
        madvise(memory, PIECE, MADV_DONTNEED);
    }
}
