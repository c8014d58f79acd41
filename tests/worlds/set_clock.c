/* A clock that one process has for itself: CLOCK_REALTIME and as many seconds as the file CLOCK_OFF holds. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

static volatile long *off;

__attribute__((constructor)) static void begin(void) {
    off = mmap(0, sizeof(long), PROT_READ, MAP_SHARED, open(getenv("CLOCK_OFF"), O_RDONLY), 0);
}

int clock_gettime(clockid_t which, struct timespec *now) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = dlsym(RTLD_NEXT, "clock_gettime");
    int failed = real(which, now);
    if (!failed && which == CLOCK_REALTIME) now->tv_sec += *off;
    return failed;
}
