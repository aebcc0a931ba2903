// Keeps CPUs busy: burn THREADS CHILDREN SECONDS [NAME]
//
// Each thread and each child process is named NAME if there is one. Takes pages now and then, too.
// Prints its process id and those of its children.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double seconds;
static const char *name;

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

__attribute__((noinline)) void burn(void) {
    for (volatile int i = 0; i < 100000; i++) {}
}

__attribute__((noinline)) static void *work(void *unused) {
    (void)unused;
    if (name) prctl(PR_SET_NAME, name);
    char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (double end = now() + seconds; now() < end;) {
        burn();
        *(volatile char *)page = 1;
        madvise(page, 4096, MADV_DONTNEED);
    }
    return NULL;
}

__attribute__((noinline)) void thread_start(long i) {
    static pthread_t ids[64];
    pthread_create(&ids[i], NULL, work, NULL);
}

int main(int argc, char **argv) {
    if (argc < 4) return 2;
    int threads = atoi(argv[1]), children = atoi(argv[2]);
    seconds = atof(argv[3]);
    name = argc > 4 ? argv[4] : NULL;
    printf("pid %d\n", getpid());
    fflush(stdout);
    for (int i = 0; i < children; i++) {
        pid_t child = fork();
        if (child == 0) {
            work(NULL);
            _exit(0);
        }
        printf("child %d\n", child);
    }
    fflush(stdout);
    for (int i = 1; i < threads && i < 64; i++)
        thread_start(i);
    work(NULL);
    while (wait(NULL) > 0) {}
}
