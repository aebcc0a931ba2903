// Threads that contend for one lock: locks spin|sleep THREADS SECONDS FOLDER
//
// spin: opening and closing files, which takes the spinlock of the process' file table.
// sleep: making and removing files in FOLDER, which takes its inode's rw_semaphore.
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static int sleeping;
static double seconds;
static const char *folder;

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

static void *contend(void *number) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%ld", folder, (long)number);
    for (double end = now() + seconds; now() < end;) {
        for (int i = 0; i < 100; i++) {
            int file = sleeping ? open(path, O_CREAT | O_WRONLY, 0600) : dup(0);
            close(file);
            if (sleeping) unlink(path);
        }
    }
    return NULL;
}

int main(int argc, char **argv) {
    if (argc != 5) return 2;
    sleeping = strcmp(argv[1], "sleep") == 0;
    int threads = atoi(argv[2]);
    seconds = atof(argv[3]);
    folder = argv[4];
    pthread_t ids[64];
    for (long i = 0; i < threads && i < 64; i++)
        pthread_create(&ids[i], NULL, contend, (void *)i);
    for (int i = 0; i < threads && i < 64; i++)
        pthread_join(ids[i], NULL);
}
