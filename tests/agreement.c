// agreement.c: arguments for a graph, and values compared with those of the reference

#include "tests/agreement.h"
#include "tests/tests.h"
#include <math.h>

void fill_argument(const struct node *node, void *data, unsigned seed)
{
    for (int64_t i = 0; i < node_numel(node); i++)
        store_element(node->dtype, data, i,
                      ((unsigned)(i + 1) * 2654435761u + seed * 40503u) / 1e9 - 2.1);
}

void expect_near(const struct graph *graph, const struct output *o, const void *got,
                 const struct tensor *expected, const char *spec)
{
    struct tolerance t = tolerance(graph, o->node);
    bool is_float = dtype_info[o->node->dtype].class == CLASS_float;
    for (int64_t i = 0; i < node_numel(o->node); i++) {
        double e =
            is_float ? ((double *)expected->data)[i] : (double)((int64_t *)expected->data)[i];
        double g = load_element(o->node->dtype, got, i);
        bool same = isnan(e) ? isnan(g) : g == e;
        ck_assert_msg(same || fabs(g - e) <= t.absolute + t.relative * fabs(e),
                      "%s[%lld]: got %.9g, expected %.9g (%s)", o->name, (long long)i, g, e, spec);
    }
}

size_t node_bytes(const struct node *node)
{
    return (size_t)node_numel(node) * (size_t)dtype_info[node->dtype].bytes;
}
