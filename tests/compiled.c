// compiled.c: program text to kernels as CUDA source, and what the stages say on the way.

#include "tests/compiled.h"
#include "tests/tests.h"
#include <stdlib.h>
#include <string.h>

void compile_text(struct compiled *c, const char *text, const struct compile_options *options)
{
    memset(c, 0, sizeof *c);
    c->source = (struct source){"a.qn", text, strlen(text)};
    c->g.source = &c->source;
    c->g.escape = &c->escape;
    if (setjmp(c->escape))
        ck_abort_msg("out of memory");
    size_t n_stages, n_shown;
    char *stages;
    struct compile_options o = *options;
    o.dump_to = open_memstream(&stages, &n_stages);
    if (!o.target)
        o.target = target_find("sm_90a");
    const struct program_ast *ast = parse(&c->g, &c->source);
    c->ok = ast && compile(&c->g, ast, &o, &c->program);
    fclose(o.dump_to);
    FILE *out = open_memstream(&c->shown, &n_shown);
    diag_print(&c->g, out);
    fputs(stages, out);
    fclose(out);
    free(stages);
}

void compile_right_text(struct compiled *c, const char *text, const struct compile_options *options)
{
    compile_text(c, text, options);
    ck_assert_msg(c->ok, "%s", c->shown);
}

static bool has_all(const char *spec, const char *const *has)
{
    while (*has && strstr(spec, *has))
        has++;
    return !*has;
}

void compile_with(struct compiled *c, const char *text, const struct compile_options *options,
                  const char *const *has)
{
    struct compiled all;
    struct compile_options o = *options;
    struct chosen_spec spec = {NULL, NULL};
    o.list_candidates = true;
    compile_right_text(&all, text, &o);
    ck_assert_int_eq(all.program.n_kernels, 1);
    const struct kernel *k = &all.program.kernels[0];
    for (int i = 0; i < k->n_candidates; i++)
        if (has_all(k->candidates[i].spec, has))
            spec = (struct chosen_spec){k->name, k->candidates[i].spec};
    ck_assert_msg(spec.spec != NULL, "no candidate has%s... of\n%s", *has, text);
    o.list_candidates = false;
    o.specs = &spec, o.n_specs = 1;
    compile_right_text(c, text, &o);
    ck_assert_str_eq(c->program.kernels[0].spec, spec.spec);
    compiled_free(&all);
}

const struct target *small_target(void)
{
    static struct target t;
    t = *target_find("sm_90a");
    t.n_sms = 6;
    t.threads_per_sm = 256;
    t.registers_per_sm = 64 * 256;
    return &t;
}

void compiled_free(struct compiled *c)
{
    arena_free(&c->g.arena);
    free(c->shown);
}
