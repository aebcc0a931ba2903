// Reads a file through a mapping: mapped FILE PASSES
//
// Touches every page from the first to the last, PASSES times. Prints how many pages that were.
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>

int main(int argc, char **argv) {
    if (argc != 3) return 2;
    int fd = open(argv[1], O_RDONLY);
    struct stat stat;
    if (fd < 0 || fstat(fd, &stat)) return 1;
    volatile char *file = mmap(NULL, stat.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (file == MAP_FAILED) return 1;
    long touched = 0;
    for (long pass = atol(argv[2]); pass > 0; pass--)
        for (off_t at = 0; at < stat.st_size; at += 4096, touched++)
            (void)file[at];
    printf("touched %ld\n", touched);
    return 0;
}
