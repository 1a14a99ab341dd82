// test_receipts.c: programs rewritten as recorded, with the receipt; of every rule a program where
// it fires and one where it must not.
//
// A comment `# not: RULE: why` above a statement says that the rule leaves the statement alone.

#include "gen/rewrite.h"
#include "tests/golden.h"
#include "tests/recorded.h"
#include "tests/tests.h"
#include <string.h>

static void print_receipt(const struct receipt *receipt, FILE *out)
{
    double flops = 0, bytes = 0;
    for (int i = 0; i < receipt->n_lines; i++) {
        const struct receipt_line *line = &receipt->lines[i];
        fprintf(out, "%s (%s): %.0f operations, %.0f bytes", line->rule,
                rule_class_name[line->class], line->saved_flops, line->saved_bytes);
        if (line->at.at)
            fprintf(out, ", at `%.*s`", line->at.len, line->at.at);
        fputc('\n', out);
        flops += line->saved_flops;
        bytes += line->saved_bytes;
    }
    fprintf(out, "in all: %.0f operations, %.0f bytes\n", flops, bytes);
}

static void produce(const char *input, FILE *out)
{
    struct gen g = {.n_errors = 0};
    struct rewrite_options options;
    struct receipt receipt = {.steps = 0};
    struct graph *graph = recorded_graph(&g, input, INT64_MAX, &options);
    if (graph) {
        graph = rewrite(&g, graph, &options, &receipt);
        graph_check(graph);
        print_graph(graph, out);
        print_receipt(&receipt, out);
    }
    diag_print(&g, out);
    arena_free(&g.arena);
}

START_TEST(programs_are_rewritten_as_recorded)
{
    golden_check("rewrite", _i, produce);
}
END_TEST

static const struct rule *rule_at(int i) // NULL behind the last
{
    for (int l = 0; rule_lists[l]; i -= rule_lists[l++]->n)
        if (i < rule_lists[l]->n)
            return &rule_lists[l]->rule[i];
    return NULL;
}

enum { MAX_RULES = 256 };

struct recorded {
    const char *input;
    struct graph *before;
    struct receipt receipt;
    bool fires[MAX_RULES], is_spared[MAX_RULES]; // in one of the cases up to here
};

static const char *next_line(const char *line)
{
    line += strcspn(line, "\n");
    return line + (*line == '\n');
}

static bool is_called(const char *rule, const char *name)
{
    size_t n = strcspn(name, ":\n");
    return strlen(rule) == n && !strncmp(rule, name, n);
}

static bool is_in(struct span at, const char *line)
{
    return at.at && at.at >= line && at.at < next_line(line);
}

// Something in the line for the rule to look at, so that the case says something of the rule.
static bool has_root(const struct recorded *c, enum op root, const char *line)
{
    for (int i = 0; i < c->before->n_nodes; i++) {
        const struct node *n = c->before->nodes[i];
        if ((n->op == root || root == OP_COUNT) && is_in(n->at, line))
            return true;
    }
    return false;
}

static void expect_spared(struct recorded *c, const char *name, const char *line)
{
    const struct rule *rule;
    bool is_rule = false, has_one = false;
    int shown = (int)strcspn(name, "\n"), length = (int)strcspn(line, "\n");
    for (int i = 0; (rule = rule_at(i)); i++)
        if (is_called(rule->name, name)) {
            is_rule = c->is_spared[i] = true;
            has_one |= has_root(c, rule->root, line);
        }
    ck_assert_msg(is_rule, "no such rule: %.*s", shown, name);
    ck_assert_msg(has_one, "nothing to look at: %.*s\n%.*s", shown, name, length, line);
    for (int i = 0; i < c->receipt.n_lines; i++)
        if (is_called(c->receipt.lines[i].rule, name) && is_in(c->receipt.lines[i].at, line))
            ck_abort_msg("fires: %.*s\n%.*s", shown, name, length, line);
}

static void expect_all_spared(struct recorded *c)
{
    const char *comments = NULL; // right above the line
    for (const char *line = c->input; *line; line = next_line(line)) {
        if (*line == '#') {
            comments = comments ? comments : line;
            continue;
        }
        for (const char *m = comments; m && m < line; m = next_line(m))
            if (!strncmp(m, "# not: ", 7))
                expect_spared(c, m + 7, line);
        comments = NULL;
    }
}

static void note_fired(struct recorded *c)
{
    const struct rule *rule;
    for (int line = 0; line < c->receipt.n_lines; line++)
        for (int i = 0; (rule = rule_at(i)); i++)
            if (!strcmp(rule->name, c->receipt.lines[line].rule) &&
                rule->class == c->receipt.lines[line].class)
                c->fires[i] = true;
}

static void look_at_case(const char *input, void *with)
{
    struct recorded *c = with;
    struct gen g = {.n_errors = 0};
    struct rewrite_options options;
    c->input = input;
    c->receipt = (struct receipt){.steps = 0};
    c->before = recorded_graph(&g, input, INT64_MAX, &options);
    ck_assert(c->before != NULL);
    rewrite(&g, c->before, &options, &c->receipt);
    note_fired(c);
    expect_all_spared(c);
    arena_free(&g.arena);
}

START_TEST(every_rule_fires_in_one_case_and_is_seen_not_to_in_another)
{
    struct recorded c = {.input = NULL};
    const struct rule *rule;
    for (int i = 0; i < golden_count("rewrite"); i++)
        golden_input("rewrite", i, look_at_case, &c);
    for (int i = 0; (rule = rule_at(i)); i++) {
        ck_assert_int_lt(i, MAX_RULES);
        ck_assert_msg(c.fires[i], "no case where it fires: %s (%s)", rule->name,
                      rule_class_name[rule->class]);
        ck_assert_msg(c.is_spared[i], "no case `# not: %s`", rule->name);
    }
}
END_TEST

Suite *receipts_suite(void)
{
    Suite *s = suite_create("receipts");
    TCase *c = tcase_create("receipts");
    tcase_add_loop_test(c, programs_are_rewritten_as_recorded, 0, golden_count("rewrite"));
    tcase_add_test(c, every_rule_fires_in_one_case_and_is_seen_not_to_in_another);
    suite_add_tcase(s, c);
    return s;
}
