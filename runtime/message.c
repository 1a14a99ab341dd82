// message.c: what went wrong, one sentence a thread and context, and lines for the log.

#include "runtime/runtime.h"
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

struct message {
    struct message *next;
    pthread_t thread;
    char *text; // NULL: there was no memory for it
};

struct messages {
    pthread_mutex_t lock;
    struct message *first;
};

// For failures that have no context to keep them: opening one, or calls with a null handle.
static _Thread_local char homeless[1024];

static _Thread_local bool hushed;

struct messages *messages_new(void)
{
    struct messages *m = calloc(1, sizeof *m);
    if (m && pthread_mutex_init(&m->lock, NULL)) {
        free(m);
        return NULL;
    }
    return m;
}

void messages_free(struct messages *m)
{
    if (!m)
        return;
    while (m->first) {
        struct message *next = m->first->next;
        free(m->first->text);
        free(m->first);
        m->first = next;
    }
    pthread_mutex_destroy(&m->lock);
    free(m);
}

static struct message *of_this_thread(struct messages *m)
{
    for (struct message *s = m->first; s; s = s->next)
        if (pthread_equal(s->thread, pthread_self()))
            return s;
    return NULL;
}

static void keep(struct messages *m, char *text)
{
    pthread_mutex_lock(&m->lock);
    struct message *s = of_this_thread(m);
    if (!s && (s = calloc(1, sizeof *s))) {
        s->thread = pthread_self();
        s->next = m->first;
        m->first = s;
    }
    if (s) {
        free(s->text);
        s->text = text;
    } else {
        free(text);
    }
    pthread_mutex_unlock(&m->lock);
}

void hush(bool on)
{
    hushed = on;
}

quern_status report(const quern *q, quern_status status, const char *format, ...)
{
    va_list args;
    if (hushed)
        return status;
    va_start(args, format);
    char *text = NULL;
    if (!q)
        vsnprintf(homeless, sizeof homeless, format, args);
    else
        keep(q->messages, vasprintf(&text, format, args) < 0 ? NULL : text);
    va_end(args);
    return status;
}

const char *quern_message(const quern *q)
{
    if (!q)
        return homeless;
    pthread_mutex_lock(&q->messages->lock);
    struct message *s = of_this_thread(q->messages);
    const char *text = !s ? "" : s->text ? s->text : "out of memory";
    pthread_mutex_unlock(&q->messages->lock);
    return text;
}

void note(const quern *q, const char *format, ...)
{
    if (!q->log)
        return;
    va_list args;
    va_start(args, format);
    char *line = NULL;
    if (vasprintf(&line, format, args) >= 0) {
        q->log(q->log_user, line);
        free(line);
    }
    va_end(args);
}

void note_lines(const quern *q, const char *text)
{
    if (!q->log || !text)
        return;
    while (*text) {
        int n = (int)strcspn(text, "\n");
        note(q, "%.*s", n, text);
        text += n + (text[n] == '\n');
    }
}
