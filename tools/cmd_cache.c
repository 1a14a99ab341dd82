// cmd_cache.c: `quern cache`: where the compiled kernels are kept, which ones, and how to be rid of
// them.

#include "tools/tools.h"
#include <inttypes.h>
#include <string.h>
#include <time.h>

struct listing {
    bool only_invalid;
    int n_entries, n_invalid;
    int64_t bytes;
};

static void list_entry(void *user, const quern_cache_entry *entry)
{
    struct listing *l = user;
    l->n_entries++;
    l->n_invalid += !entry->valid;
    l->bytes += entry->bytes;
    if (l->only_invalid && entry->valid)
        return;
    char when[32] = "";
    time_t used = (time_t)entry->used;
    struct tm tm;
    if (localtime_r(&used, &tm))
        strftime(when, sizeof when, "%Y-%m-%d %H:%M:%S", &tm);
    printf("%.16s  %s  %10" PRId64 "  %-8s  %s%s\n", entry->key, when, entry->bytes, entry->arch,
           entry->name, entry->valid ? "" : "  damaged: it will be compiled again");
}

static enum exit_status list(struct session *s, bool verify)
{
    struct listing l = {.only_invalid = verify};
    quern_status status = quern_cache_list(s->q, list_entry, &l, verify);
    if (status != QUERN_OK)
        return session_failure(s, status);
    printf("%d kernels, %" PRId64 " bytes", l.n_entries, l.bytes);
    if (verify)
        printf(", %d damaged", l.n_invalid);
    putchar('\n');
    return verify && l.n_invalid ? STATUS_wrong : STATUS_done;
}

static enum exit_status prune(struct session *s, int64_t max_bytes)
{
    int n_removed = 0;
    quern_status status = quern_cache_prune(s->q, max_bytes, &n_removed);
    if (status != QUERN_OK)
        return session_failure(s, status);
    printf("%d kernels removed\n", n_removed);
    return STATUS_done;
}

enum { PATH, LIST, VERIFY, PRUNE, CLEAR, N_ACTIONS };
static const char *const actions[N_ACTIONS] = {"path", "list", "verify", "prune", "clear"};

static enum exit_status unknown_action(const char *word)
{
    const char *near = nearest(word, actions, N_ACTIONS);
    return near ? complain(STATUS_usage, "cache: unknown action %s; did you mean %s?", word, near)
                : complain(STATUS_usage, "cache: unknown action %s; see `quern help cache`", word);
}

enum exit_status cmd_cache(const struct options *o)
{
    static const int64_t usual_bound = (int64_t)1 << 30;
    int action = 0;
    while (action < N_ACTIONS && strcmp(actions[action], o->operand))
        action++;
    if (action == N_ACTIONS)
        return unknown_action(o->operand);
    if (o->max_bytes >= 0 && action != PRUNE)
        return complain(STATUS_usage, "cache %s takes no --max-bytes", o->operand);
    if (!o->cache_dir)
        return complain(STATUS_missing,
                        "no folder for the cache: set QUERN_CACHE_DIR, XDG_CACHE_HOME or HOME");
    if (action == PATH) {
        puts(o->cache_dir);
        return STATUS_done;
    }
    struct session s;
    enum exit_status status = session_open(&s, o, QUERN_DEVICE_NONE);
    if (status != STATUS_done)
        return status;
    if (action == LIST || action == VERIFY)
        status = list(&s, action == VERIFY);
    else
        status = prune(&s, action == CLEAR ? 0 : o->max_bytes >= 0 ? o->max_bytes : usual_bound);
    session_close(&s);
    return status;
}
