// Threads that contend for one lock: locks spin|storm|private|sleep THREADS SECONDS FOLDER
//
// spin: opening and closing files, which takes the spinlock of the process' file table.
// storm: the same with a large table, which is searched under the lock, so that two CPUs are enough.
// private: the same with a table for each thread.
// sleep: making and removing files in FOLDER, which takes its inode's rw_semaphore.
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static int sleeping, large, private;
static double seconds;
static const char *folder;

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

// Makes the table as large as it may get.
static void grow(void) {
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max < 100000 ? limit.rlim_max : 100000;
    setrlimit(RLIMIT_NOFILE, &limit);
    close(dup2(0, limit.rlim_cur - 1));
}

static void *contend(void *number) {
    char path[4096];
    if (private) {
        unshare(CLONE_FILES);
        grow();
    }
    snprintf(path, sizeof path, "%s/%ld", folder, (long)number);
    for (double end = now() + seconds; now() < end;) {
        for (int i = 0; i < (large ? 5 : 100); i++) {
            int file = sleeping ? open(path, O_CREAT | O_WRONLY, 0600) : dup(0);
            close(file);
            // There are none to close: it only looks.
            for (int j = 0; large && j < 20; j++) syscall(SYS_close_range, 1000, ~0u, 0);
            if (sleeping) unlink(path);
        }
    }
    return NULL;
}

int main(int argc, char **argv) {
    if (argc != 5) return 2;
    sleeping = strcmp(argv[1], "sleep") == 0;
    private = strcmp(argv[1], "private") == 0;
    large = private || strcmp(argv[1], "storm") == 0;
    if (large) grow();
    int threads = atoi(argv[2]);
    seconds = atof(argv[3]);
    folder = argv[4];
    pthread_t ids[64];
    for (long i = 0; i < threads && i < 64; i++)
        pthread_create(&ids[i], NULL, contend, (void *)i);
    for (int i = 0; i < threads && i < 64; i++)
        pthread_join(ids[i], NULL);
}
