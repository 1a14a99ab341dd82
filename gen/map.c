// map.c: names in, what they name out, in constant time; for an unknown name the nearest known one;
// growing arrays.

#include "gen/syntax.h"
#include <string.h>

static uint32_t hash(const char *name, int len)
{
    uint32_t h = 2166136261u;
    for (int i = 0; i < len; i++)
        h = (h ^ (unsigned char)name[i]) * 16777619u;
    return h;
}

// Where the name is, or where it would go.
static struct map_entry *slot(const struct map *map, const char *name, int len)
{
    uint32_t mask = (uint32_t)map->capacity - 1, i = hash(name, len) & mask;
    for (;; i = (i + 1) & mask) {
        struct map_entry *e = &map->entries[i];
        if (!e->name || (e->len == len && !memcmp(e->name, name, (size_t)len)))
            return e;
    }
}

void *map_find(const struct map *map, const char *name, int len)
{
    return map->capacity ? slot(map, name, len)->value : NULL;
}

static void grow(struct gen *g, struct map *map)
{
    struct map bigger = {.capacity = map->capacity ? 2 * map->capacity : 16};
    bigger.entries = arena_new(g, struct map_entry, bigger.capacity);
    for (int i = 0; i < map->capacity; i++)
        if (map->entries[i].name)
            *slot(&bigger, map->entries[i].name, map->entries[i].len) = map->entries[i];
    bigger.n = map->n;
    *map = bigger;
}

void map_put(struct gen *g, struct map *map, const char *name, int len, void *value)
{
    if (4 * (map->n + 1) > 3 * map->capacity)
        grow(g, map);
    struct map_entry *e = slot(map, name, len);
    map->n += !e->name;
    *e = (struct map_entry){name, len, value};
}

enum { LONGEST_SUGGESTED = 40 };

static int least(int a, int b, int c)
{
    int ab = a < b ? a : b;
    return ab < c ? ab : c;
}

// Letters to insert, delete, replace or swap with their neighbour to get from a to b.
static int edit_distance(const char *a, int a_len, const char *b, int b_len)
{
    int d[LONGEST_SUGGESTED + 1][LONGEST_SUGGESTED + 1];
    for (int i = 0; i <= a_len; i++)
        d[i][0] = i;
    for (int j = 0; j <= b_len; j++)
        d[0][j] = j;
    for (int i = 1; i <= a_len; i++)
        for (int j = 1; j <= b_len; j++) {
            bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
            int replaced = d[i - 1][j - 1] + (a[i - 1] != b[j - 1]);
            d[i][j] = least(d[i - 1][j] + 1, d[i][j - 1] + 1, replaced);
            if (swapped && d[i - 2][j - 2] + 1 < d[i][j])
                d[i][j] = d[i - 2][j - 2] + 1;
        }
    return d[a_len][b_len];
}

// Equally near names: the first in the alphabet, so that the answer does not depend on the hash.
const char *map_nearest(struct gen *g, const struct map *map, const char *name, int *distance)
{
    const struct map_entry *best = NULL;
    int len = (int)strnlen(name, LONGEST_SUGGESTED + 1), bound = 1 + len / 4;
    if (len > LONGEST_SUGGESTED)
        return NULL;
    for (int i = 0; i < map->capacity; i++) {
        const struct map_entry *e = &map->entries[i];
        if (!e->name || e->len > len + bound || e->len < len - bound || e->len > LONGEST_SUGGESTED)
            continue;
        int d = edit_distance(name, len, e->name, e->len);
        if (d > bound || d >= len || d > *distance || (d == *distance && !best))
            continue;
        if (d == *distance && strncmp(e->name, best->name, (size_t)e->len) > 0)
            continue;
        best = e;
        *distance = d;
    }
    return best ? arena_text(g, "%.*s", best->len, best->name) : NULL;
}

void *array_room(struct gen *g, void *items, int n, size_t item_bytes)
{
    if (n & (n - 1))
        return items;
    void *more = arena_alloc(g, (n ? 2 * (size_t)n : 1) * item_bytes);
    if (n)
        memcpy(more, items, (size_t)n * item_bytes);
    return more;
}
