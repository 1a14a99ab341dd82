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

void compiled_free(struct compiled *c)
{
    arena_free(&c->g.arena);
    free(c->shown);
}
