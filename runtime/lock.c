// lock.c: a key to a lock on it, over all processes and threads that share the folder.
//
// One file serves all keys: a key's lock is one byte of it, at an offset that its hash gives (two
// keys that meet there only wait for each other).  Open-file locks belong to the descriptor, so
// threads exclude each other too, and the kernel frees them when the holder dies.  Where the file
// system has none, there is no lock and two may compile the same.

#include "runtime/cache.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static off_t offset_of(const struct cache_key *key)
{
    uint64_t bits;
    memcpy(&bits, key->bytes, sizeof bits);
    return (off_t)(bits >> 2);
}

static void sleep_ms(int ms)
{
    struct timespec t = {.tv_nsec = ms * 1000000L};
    nanosleep(&t, NULL);
}

int key_lock(int folder, const struct cache_key *key, int patience_ms)
{
    int fd = openat(folder, "lock", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return -1;
    fchmod(fd, 0600);
    struct flock lock = {
        .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = offset_of(key), .l_len = 1};
    for (int waited = 0, step = 1; fcntl(fd, F_OFD_SETLK, &lock);
         waited += step, step = step < 16 ? 2 * step : 20) {
        if ((errno != EAGAIN && errno != EACCES) || waited >= patience_ms) {
            close(fd);
            return -1;
        }
        sleep_ms(step);
    }
    return fd;
}

// Not by closing alone: a child forked meanwhile has the descriptor too.
void key_unlock(int lock)
{
    if (lock < 0)
        return;
    fcntl(lock, F_OFD_SETLK, &(struct flock){.l_type = F_UNLCK, .l_whence = SEEK_SET});
    close(lock);
}
