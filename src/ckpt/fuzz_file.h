/* fuzz_file.h: for fuzz targets of readers that open files: the bytes as a file without a disk. */
#ifndef MLXCEL_CKPT_FUZZ_FILE_H
#define MLXCEL_CKPT_FUZZ_FILE_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

/* Gives a descriptor to close and writes a path that opens the same bytes. */
static inline int fuzz_file(const uint8_t *data, size_t size, char path[64]) {
    int fd = memfd_create("fuzz", MFD_CLOEXEC);
    if (fd < 0 || (size && write(fd, data, size) != (ssize_t)size)) abort();
    snprintf(path, 64, "/proc/self/fd/%d", fd);
    return fd;
}

#endif
