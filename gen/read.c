// read.c: the text that print.c writes to the graph it stands for.
//
// A line is taken apart into one struct line, whatever its op; then the op's builder makes the
// node, with its checks, and the node must have the dtype and shape that the line says.  Blank
// lines and lines that start with # are skipped; attributes may come in any order.  Anything else
// is reported at its place.

#include "gen/read.h"
#include "gen/graph.h"
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

const char *const key_name[KEY_COUNT] = {
    [KEY_axes] = "axes", [KEY_axis] = "axis", [KEY_before] = "before", [KEY_fill] = "fill",
    [KEY_name] = "name", [KEY_perm] = "perm", [KEY_start] = "start",   [KEY_step] = "step",
};

struct reader {
    struct gen *g;
    const char *at, *end;
    struct graph *graph;
    struct size *sizes;
    int n_sizes;
};

static bool wrong(struct reader *r, const char *expected)
{
    struct span here = {.at = r->at, .len = r->at < r->end && *r->at != '\n' ? 1 : 0};
    return fail_at(r->g, here, "expected %s", expected);
}

static void skip_blanks(struct reader *r)
{
    while (r->at < r->end && (*r->at == ' ' || *r->at == '\t'))
        r->at++;
}

static bool accept(struct reader *r, char c)
{
    skip_blanks(r);
    if (r->at >= r->end || *r->at != c)
        return false;
    r->at++;
    return true;
}

static bool expect(struct reader *r, char c)
{
    char what[] = {'\'', c, '\'', 0};
    return accept(r, c) || wrong(r, what);
}

static struct span word(struct reader *r) // letters, digits and _; may be empty
{
    skip_blanks(r);
    struct span w = {.at = r->at, .len = 0};
    while (r->at < r->end && (isalnum((unsigned char)*r->at) || *r->at == '_'))
        r->at++;
    w.len = (int)(r->at - w.at);
    return w;
}

static bool is_word(struct span w, const char *text)
{
    return (size_t)w.len == strlen(text) && !memcmp(w.at, text, (size_t)w.len);
}

static bool read_integer(struct reader *r, int64_t *value)
{
    skip_blanks(r);
    const char *digits = r->at < r->end && *r->at == '-' ? r->at + 1 : r->at;
    if (digits >= r->end || !isdigit((unsigned char)*digits))
        return wrong(r, "an integer");
    char *stop;
    errno = 0;
    *value = strtoll(r->at, &stop, 10);
    struct span digits_read = {.at = r->at, .len = (int)(stop - r->at)};
    r->at = stop;
    return !errno || fail_at(r->g, digits_read, "this integer does not fit in 64 bits");
}

static bool read_list(struct reader *r, struct list *list)
{
    list->n = 0;
    if (!expect(r, '['))
        return false;
    if (accept(r, ']'))
        return true;
    do {
        if (list->n == MAX_RANK)
            return fail_at(r->g, (struct span){r->at, 1}, "more than %d values", MAX_RANK);
        if (!read_integer(r, &list->value[list->n++]))
            return false;
    } while (accept(r, ','));
    return expect(r, ']');
}

static bool read_string(struct reader *r, const char **text)
{
    if (!expect(r, '"'))
        return false;
    const char *start = r->at;
    while (r->at < r->end && *r->at != '"' && *r->at != '\\' && (unsigned char)*r->at >= ' ')
        r->at++;
    *text = arena_text(r->g, "%.*s", (int)(r->at - start), start);
    return expect(r, '"');
}

static bool read_reference(struct reader *r, struct node **node)
{
    struct span at = {.at = r->at, .len = 0};
    int64_t id;
    if (!expect(r, '%') || !read_integer(r, &id))
        return false;
    at.len = (int)(r->at - at.at);
    if (id < 0 || id >= r->graph->n_nodes)
        return fail_at(r->g, at, "no %%%" PRId64 " above this line", id);
    *node = r->graph->nodes[id];
    return true;
}

static bool read_inputs(struct reader *r, struct line *l)
{
    do {
        if (l->n_in == l->cap_in) {
            l->cap_in = 2 * l->cap_in + 4;
            struct node **grown = arena_new(r->g, struct node *, l->cap_in);
            for (int i = 0; i < l->n_in; i++)
                grown[i] = l->in[i];
            l->in = grown;
        }
        skip_blanks(r);
        if (!read_reference(r, &l->in[l->n_in++]))
            return false;
    } while (accept(r, ','));
    return true;
}

static bool read_real(struct reader *r, double *value)
{
    skip_blanks(r);
    char *stop = NULL;
    if (r->at < r->end && !isspace((unsigned char)*r->at))
        *value = strtod(r->at, &stop);
    if (!stop || stop == r->at)
        return wrong(r, "a number");
    r->at = stop;
    return true;
}

static bool read_attribute(struct reader *r, struct line *l)
{
    struct span w = word(r);
    int key = 0;
    while (key < KEY_COUNT && !is_word(w, key_name[key]))
        key++;
    if (key == KEY_COUNT || l->has[key])
        return fail_at(r->g, w,
                       key < KEY_COUNT ? "this attribute is already given"
                                       : "expected an attribute or ':'");
    l->has[key] = true;
    if (!expect(r, '='))
        return false;
    switch (key) {
    case KEY_axis:
        return read_integer(r, &l->list[key].value[0]);
    case KEY_fill:
        return read_real(r, &l->fill);
    case KEY_name:
        return read_string(r, &l->name);
    }
    return read_list(r, &l->list[key]);
}

static bool read_type(struct reader *r, struct line *l)
{
    struct span w = word(r);
    int dtype = 0;
    while (dtype < DT_COUNT && !is_word(w, dtype_info[dtype].name))
        dtype++;
    if (dtype == DT_COUNT)
        return fail_at(r->g, w, "expected a dtype");
    l->dtype = (enum dtype)dtype;
    return read_list(r, &l->dim);
}

static bool read_op(struct reader *r, enum op *op)
{
    struct span w = word(r);
    int o = 0;
    while (o < OP_COUNT && !is_word(w, op_info[o].name))
        o++;
    *op = (enum op)o;
    return o < OP_COUNT || fail_at(r->g, w, "expected the name of an op");
}

static bool read_line(struct reader *r, struct line *l)
{
    skip_blanks(r);
    struct span at = {.at = r->at, .len = 0};
    int64_t id;
    if (!expect(r, '%') || !read_integer(r, &id))
        return false;
    at.len = (int)(r->at - at.at);
    if (id != r->graph->n_nodes)
        return fail_at(r->g, at, "expected %%%d", r->graph->n_nodes);
    if (!expect(r, '=') || !read_op(r, &l->op))
        return false;
    skip_blanks(r);
    if (l->op == OP_input || l->op == OP_weight) {
        if (!read_string(r, &l->name))
            return false;
    } else if (l->op == OP_constant) {
        double ignored;
        l->number.at = r->at;
        if (!read_real(r, &ignored))
            return false;
        l->number.len = (int)(r->at - l->number.at);
    } else if (r->at < r->end && *r->at == '%' && !read_inputs(r, l)) {
        return false;
    }
    while (!accept(r, ':'))
        if (!read_attribute(r, l))
            return false;
    return read_type(r, l);
}

static bool read_node(struct reader *r)
{
    struct line l = {.n_in = 0};
    const char *start = r->at;
    if (!read_line(r, &l))
        return false;
    r->g->at = (struct span){.at = start, .len = (int)(r->at - start)};
    struct node *n = build_line(r->g, r->graph, &l);
    if (!n)
        return false;
    struct node said = {.dtype = l.dtype};
    node_set_shape(&said, l.dim.n, l.dim.value);
    if (n->dtype != said.dtype || !node_same_shape(n, &said))
        return fail(r->g, "%s makes %s, not %s", op_info[n->op].name, node_text(r->g, n),
                    node_text(r->g, &said));
    if (l.has[KEY_name])
        n->name = l.name;
    return true;
}

static bool read_output(struct reader *r)
{
    const char *start = r->at, *name;
    struct node *node;
    struct span keyword = word(r);
    if (!is_word(keyword, "output"))
        return fail_at(r->g, keyword, "expected 'output' or a node");
    if (!read_string(r, &name) || !expect(r, '='))
        return false;
    skip_blanks(r);
    if (!read_reference(r, &node))
        return false;
    r->g->at = (struct span){.at = start, .len = (int)(r->at - start)};
    graph_output(r->g, r->graph, name, node);
    return true;
}

static bool read_size(struct reader *r)
{
    int n = r->n_sizes;
    if ((n & (n - 1)) == 0) {
        struct size *grown = arena_new(r->g, struct size, 2 * n + 1);
        for (int i = 0; i < n; i++)
            grown[i] = r->sizes[i];
        r->sizes = grown;
    }
    struct span w = word(r);
    r->sizes[n].name = arena_text(r->g, "%.*s", w.len, w.at);
    r->n_sizes++;
    return (w.len > 0 || wrong(r, "the name of a size")) && expect(r, '=') &&
           read_integer(r, &r->sizes[n].value);
}

static bool read_header(struct reader *r)
{
    struct span keyword = word(r);
    if (!is_word(keyword, "graph"))
        return fail_at(r->g, keyword, "expected 'graph'");
    struct span name = word(r);
    if (!name.len)
        return wrong(r, "the graph's name");
    r->graph = graph_new(r->g, arena_text(r->g, "%.*s", name.len, name.at));
    if (!expect(r, '('))
        return false;
    if (!accept(r, ')')) {
        do {
            if (!read_size(r))
                return false;
        } while (accept(r, ','));
        if (!expect(r, ')'))
            return false;
    }
    r->graph->sizes = r->sizes;
    r->graph->n_sizes = r->n_sizes;
    return true;
}

// Goes to the next line that says something; false: none is left.
static bool next_line(struct reader *r)
{
    for (; r->at < r->end; r->at++) {
        skip_blanks(r);
        if (r->at < r->end && *r->at == '#')
            while (r->at < r->end && *r->at != '\n')
                r->at++;
        if (r->at >= r->end || *r->at != '\n')
            break;
    }
    return r->at < r->end;
}

// The text becomes g->source, so that what is reported shows its lines.
struct graph *read_graph(struct gen *g, const struct source *text)
{
    struct reader r = {.g = g, .at = text->text, .end = text->text + text->n_bytes};
    g->source = text;
    next_line(&r);
    bool good = read_header(&r);
    while (good) {
        skip_blanks(&r);
        if (r.at < r.end && *r.at != '\n')
            good = wrong(&r, "the end of the line");
        else if (!next_line(&r))
            return r.graph;
        else
            good = *r.at == 'o' ? read_output(&r) : read_node(&r);
    }
    return NULL;
}
