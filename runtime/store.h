// store.h: the cache's folder as a whole
#pragma once
#include "runtime/cache.h"
#include <pthread.h>
#include <stdatomic.h>

struct cache {
    char *path;
    int folder;
    int64_t max_bytes;
    int patience_ms;
    atomic_bool complained;
    pthread_mutex_t lock; // guards total and grown
    int64_t total;        // bytes in the folder when it was last looked at; -1: never
    int64_t grown;        // published since
};

void store_grown(struct cache *c, int64_t bytes); // was published: keeps the bound
