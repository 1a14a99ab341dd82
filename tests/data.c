// data.c: the buffers of a program of one kernel, filled, launched on and compared.

#include "tests/data.h"
#include "tests/agreement.h"
#include "tests/on_host.h"
#include "tests/tests.h"
#include <stdlib.h>
#include <string.h>

void data_open(struct data *d, struct compiled *c)
{
    const struct program *p = &c->program;
    *d = (struct data){.c = c};
    for (int b = 0; b < p->n_buffers; b++)
        ck_assert(!posix_memalign(&d->at[b], 16, (size_t)p->buffers[b].bytes));
    for (int b = 0; b < p->n_buffers; b++)
        if (p->buffers[b].kind == BUFFER_counter)
            memset(d->at[b], 0, (size_t)p->buffers[b].bytes);
}

void data_close(struct data *d)
{
    for (int b = 0; b < d->c->program.n_buffers; b++)
        free(d->at[b]);
}

void data_expect(struct data *d)
{
    const struct program *p = &d->c->program;
    struct tensor arguments[4];
    for (int i = 0; i < p->n_arguments; i++) {
        const struct node *node = p->graph->arguments[i];
        arguments[i] = (struct tensor){
            .dtype = node->dtype, .rank = node->rank, .data = d->at[p->arguments[i]]};
        memcpy(arguments[i].dim, node->dim, sizeof node->dim);
    }
    ck_assert(eval(&d->c->g, p->graph, EVAL_exact, arguments, d->expected));
}

void data_fill(struct data *d, unsigned seed)
{
    const struct program *p = &d->c->program;
    for (int i = 0; i < p->n_arguments; i++)
        fill_argument(p->graph->arguments[i], d->at[p->arguments[i]], seed + (unsigned)i);
    data_expect(d);
}

void data_run(struct data *d, const struct host_library *library, unsigned blocks, bool reversed)
{
    const struct program *p = &d->c->program;
    struct kernel k = p->kernels[0];
    void *pointers[8];
    k.grid[0] = blocks;
    for (int i = 0; i < k.n_args; i++)
        pointers[i] = d->at[k.args[i]];
    for (int i = 0; i < p->n_outputs; i++)
        memset(d->at[p->outputs[i]], 0xff, node_bytes(p->graph->outputs[i].node));
    assert_ran(launch_kernel(library, &k, reversed, pointers));
    for (int i = 0; i < p->n_outputs; i++)
        expect_near(p->graph, &p->graph->outputs[i], d->at[p->outputs[i]], &d->expected[i], k.spec);
}
