// print.c: graph to text, one line a node; read.c makes the same graph of it again.
//
//     graph row_mean(B = 8, D = 64)
//     %0 = input "x" : f32[8,64]
//     %1 = sum %0 axes=[1] : f32[8,1]
//     %2 = constant 0.015625 : f32[]
//     %3 = mul %1, %2 name="mean" : f32[8,1]
//     output "y" = %3
//
// Op, inputs, attributes by name, dtype and shape.  A constant is the shortest decimal that rounds
// to it in its dtype.  name= is the program's own name for the value.

#include "gen/graph.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

static void print_real(enum dtype dtype, double value, FILE *out)
{
    char text[40];
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, value);
        if (isnan(value) || constant_value(dtype, strtod(text, NULL)) == value)
            break;
    }
    fputs(isnan(value) ? "nan" : text, out);
}

static void print_list(const char *name, int n, const int64_t *value, FILE *out)
{
    fprintf(out, " %s=[", name);
    for (int i = 0; i < n; i++)
        fprintf(out, i ? ",%" PRId64 : "%" PRId64, value[i]);
    fputc(']', out);
}

static void print_name(const struct node *n, FILE *out)
{
    if (n->name)
        fprintf(out, " name=\"%s\"", n->name);
}

static void print_axes(const struct node *n, FILE *out)
{
    int64_t axes[MAX_RANK];
    int count = 0;
    for (int a = 0; a < n->in[0]->rank; a++)
        if (n->attr.axes >> a & 1)
            axes[count++] = a;
    print_list("axes", count, axes, out);
}

static void print_perm(const struct node *n, FILE *out)
{
    int64_t perm[MAX_RANK];
    for (int a = 0; a < n->rank; a++)
        perm[a] = n->attr.perm[a];
    print_list("perm", n->rank, perm, out);
}

static void print_leaf(const struct node *n, FILE *out)
{
    switch ((int)n->op) {
    case OP_constant:
        fputc(' ', out);
        if (dtype_info[n->dtype].class == CLASS_float)
            print_real(n->dtype, n->attr.value, out);
        else
            fprintf(out, "%" PRId64, n->attr.integer);
        print_name(n, out);
        return;
    case OP_iota:
        fprintf(out, " axis=%d", n->attr.axis);
        print_name(n, out);
        return;
    }
    fprintf(out, " \"%s\"", n->name);
}

// In alphabetical order, the name among them.
static void print_attributes(const struct node *n, FILE *out)
{
    if (op_info[n->op].kind == KIND_reduction)
        print_axes(n, out);
    if (n->op == OP_concat)
        fprintf(out, " axis=%d", n->attr.axis);
    if (n->op == OP_pad) {
        print_list("before", n->rank, n->attr.before, out);
        fputs(" fill=", out);
        print_real(n->dtype, n->attr.fill, out);
    }
    print_name(n, out);
    if (n->op == OP_permute)
        print_perm(n, out);
    if (n->op == OP_slice) {
        print_list("start", n->rank, n->attr.start, out);
        print_list("step", n->rank, n->attr.step, out);
    }
}

static void print_node(const struct node *n, FILE *out)
{
    fprintf(out, "%%%d = %s", n->id, op_info[n->op].name);
    for (int i = 0; i < n->n_in; i++)
        fprintf(out, i ? ", %%%d" : " %%%d", n->in[i]->id);
    if (op_info[n->op].kind == KIND_leaf)
        print_leaf(n, out);
    else
        print_attributes(n, out);
    fprintf(out, " : %s[", dtype_info[n->dtype].name);
    for (int a = 0; a < n->rank; a++)
        fprintf(out, a ? ",%" PRId64 : "%" PRId64, n->dim[a]);
    fputs("]\n", out);
}

void print_graph(const struct graph *graph, FILE *out)
{
    fprintf(out, "graph %s(", graph->name);
    for (int i = 0; i < graph->n_sizes; i++)
        fprintf(out, i ? ", %s = %" PRId64 : "%s = %" PRId64, graph->sizes[i].name,
                graph->sizes[i].value);
    fputs(")\n", out);
    for (int i = 0; i < graph->n_nodes; i++)
        print_node(graph->nodes[i], out);
    for (int i = 0; i < graph->n_outputs; i++)
        fprintf(out, "output \"%s\" = %%%d\n", graph->outputs[i].name, graph->outputs[i].node->id);
}
