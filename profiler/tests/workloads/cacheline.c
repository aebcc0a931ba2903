// Two threads on two CPUs, one of which reads a field that never changes: cacheline MODE SECONDS
//
//   false   the other thread counts in the same cache line, in another field
//   padded  the same, with the two fields 128 bytes apart
//   true    both threads use the same field: one counts in it, the other reads it
//
// Prints how often the field was read.
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdalign.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct geometry {
    unsigned int block_log;
    unsigned int group_log;
    long requests;
};

struct padded_geometry {
    unsigned int block_log;
    unsigned int group_log;
    char apart[120];
    long requests;
};

static alignas(128) struct geometry geometry = {12, 7, 0};
static alignas(128) struct padded_geometry padded_geometry = {12, 7, {0}, 0};
static int end;

static __attribute__((noipa)) unsigned long group_of(struct geometry *geometry, unsigned long block) {
    unsigned int log = *(volatile unsigned int *)&geometry->group_log;
    return (block >> log) * 3 + (block & ((1ul << log) - 1));
}

static __attribute__((noipa)) unsigned long padded_group_of(struct padded_geometry *geometry, unsigned long block) {
    unsigned int log = *(volatile unsigned int *)&geometry->group_log;
    return (block >> log) * 3 + (block & ((1ul << log) - 1));
}

static __attribute__((noipa)) unsigned long load_of(struct geometry *geometry, unsigned long block) {
    unsigned long requests = *(volatile long *)&geometry->requests;
    return (block >> (requests & 7)) * 3 + (block ^ requests);
}

static __attribute__((noipa)) void count_request(struct geometry *geometry) {
    __atomic_fetch_add(&geometry->requests, 1, __ATOMIC_SEQ_CST);
}

static __attribute__((noipa)) void padded_count_request(struct padded_geometry *geometry) {
    __atomic_fetch_add(&geometry->requests, 1, __ATOMIC_SEQ_CST);
}

static void run_on(int cpu) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    if (sched_setaffinity(0, sizeof set, &set) != 0) perror("sched_setaffinity");
}

static void *count(void *padded) {
    run_on(1);
    while (!__atomic_load_n(&end, __ATOMIC_RELAXED))
        for (int i = 0; i < 1000; i++) {
            if (padded)
                padded_count_request(&padded_geometry);
            else
                count_request(&geometry);
        }
    return NULL;
}

static double now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec + now.tv_nsec * 1e-9;
}

int main(int argc, char **argv) {
    if (argc != 3) return 2;
    int padded = !strcmp(argv[1], "padded"), same = !strcmp(argv[1], "true");
    pthread_t counter;
    if (pthread_create(&counter, NULL, count, padded ? &end : NULL) != 0) return 1;
    run_on(0);
    unsigned long reads = 0, sum = 0;
    for (double until = now() + atof(argv[2]); now() < until;)
        for (int i = 0; i < 1000; i++, reads++) {
            if (padded)
                sum += padded_group_of(&padded_geometry, reads);
            else if (same)
                sum += load_of(&geometry, reads);
            else
                sum += group_of(&geometry, reads);
        }
    __atomic_store_n(&end, 1, __ATOMIC_RELAXED);
    pthread_join(counter, NULL);
    printf("reads %lu\nsum %lu\n", reads, sum);
}
