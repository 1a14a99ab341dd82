// progress.c: one line on a terminal for what takes over a second; it is wiped when the work is
// done.

#include "tools/tools.h"
#include <pthread.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

struct progress {
    const char *what;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t over;
    bool done, shown;
};

static void *tick(void *user)
{
    struct progress *p = user;
    struct timespec next;
    clock_gettime(CLOCK_REALTIME, &next);
    pthread_mutex_lock(&p->lock);
    for (int seconds = 1; !p->done; seconds++) {
        next.tv_sec++;
        while (!p->done && pthread_cond_timedwait(&p->over, &p->lock, &next) == 0)
            ;
        if (!p->done)
            p->shown = fprintf(stderr, "\rquern: %s, %d s ", p->what, seconds) > 0;
    }
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

struct progress *progress_begin(const char *what)
{
    if (!isatty(STDERR_FILENO))
        return NULL;
    struct progress *p = calloc(1, sizeof *p);
    if (!p)
        return NULL;
    p->what = what;
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->over, NULL);
    if (pthread_create(&p->thread, NULL, tick, p) != 0) {
        free(p);
        return NULL;
    }
    return p;
}

void progress_end(struct progress *p)
{
    if (!p)
        return;
    pthread_mutex_lock(&p->lock);
    p->done = true;
    pthread_cond_signal(&p->over);
    pthread_mutex_unlock(&p->lock);
    pthread_join(p->thread, NULL);
    if (p->shown)
        fputs("\r\033[K", stderr);
    pthread_cond_destroy(&p->over);
    pthread_mutex_destroy(&p->lock);
    free(p);
}
