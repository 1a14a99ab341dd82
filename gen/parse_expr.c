// parse_expr.c: tokens to expression trees, by precedence climbing.
//
//     or < and < not < comparison < + - < * / // % @ < unary - < ** < call, index, .T
//
// as Python has them, but that comparisons do not chain.  A chain of operators is a left-deep tree,
// however long; only brackets, unary operators and ** nest, and those are counted.  NULL: failed
// and reported.

#include "gen/syntax.h"
#include <math.h>
#include <string.h>

void advance(struct parser *p)
{
    p->last = p->token;
    p->token = p->next;
    p->next = lex(&p->lexer);
}

bool accept(struct parser *p, enum token_kind kind)
{
    if (p->token.kind != kind)
        return false;
    advance(p);
    return true;
}

bool is_word(const struct token *t, const char *word)
{
    return t->kind == TOKEN_name && (size_t)t->at.len == strlen(word) &&
           !memcmp(t->at.at, word, (size_t)t->at.len);
}

const char *token_text(struct gen *g, const struct token *t)
{
    return arena_text(g, "%.*s", t->at.len, t->at.at);
}

struct span span_from(struct span first, struct span last)
{
    return (struct span){first.at, (int)(last.at + last.len - first.at)};
}

enum { LONGEST_QUOTED = 40 };

bool fail_expected(struct parser *p, const char *expected)
{
    const struct token *t = &p->token;
    if (t->kind == TOKEN_bad)
        return fail_at(p->g, t->at, "%s", t->message);
    bool own = t->kind >= TOKEN_name && t->kind <= TOKEN_text;
    bool cut = t->at.len > LONGEST_QUOTED;
    const char *got = own ? arena_text(p->g, "`%.*s%s`", cut ? LONGEST_QUOTED : t->at.len, t->at.at,
                                       cut ? "..." : "")
                          : token_name(t->kind);
    return fail_at(p->g, t->at, "expected %s, got %s", expected, got);
}

bool expect(struct parser *p, enum token_kind kind, const char *expected)
{
    return accept(p, kind) || fail_expected(p, expected);
}

bool list_goes_on(struct parser *p, enum token_kind close, struct span open, bool *ok)
{
    bool comma = p->comma = accept(p, TOKEN_comma);
    if (accept(p, close)) {
        *ok = true;
        return false;
    }
    if (comma)
        return true;
    *ok = false;
    fail_expected(p, arena_text(p->g, "`,` or %s", token_name(close)));
    if (memchr(open.at, '\n', (size_t)(p->token.at.at - open.at)))
        note_at(p->g, open, "`%c` is opened here", *open.at);
    return false;
}

bool enter(struct parser *p)
{
    if (++p->depth <= MAX_NESTING)
        return true;
    return fail_at(p->g, p->token.at, "nested more than %d levels deep", MAX_NESTING);
}

static struct expr *expr_new(struct parser *p, enum expr_kind kind, struct span at)
{
    struct expr *e = arena_new(p->g, struct expr, 1);
    e->kind = kind;
    e->at = at;
    return e;
}

static struct expr *parse_binary(struct parser *p, int lowest);

static void append(struct parser *p, struct expr *list, struct expr *item)
{
    list->items = array_room(p->g, list->items, list->n_items, sizeof(struct expr *));
    list->items[list->n_items++] = item;
}

// [a, b] from after its bracket
static struct expr *parse_items(struct parser *p, struct expr *list, enum token_kind close)
{
    bool ok = accept(p, close), more = !ok;
    while (more) {
        struct expr *item = parse_expr(p);
        if (!item)
            return NULL;
        append(p, list, item);
        more = list_goes_on(p, close, list->at, &ok);
    }
    list->at = span_from(list->at, p->last.at);
    return ok ? list : NULL;
}

// (a) is a; (a,) and (a, b) and () are lists
static struct expr *parse_parenthesis(struct parser *p)
{
    struct expr *list = expr_new(p, EXPR_list, p->last.at);
    list = parse_items(p, list, TOKEN_right);
    if (!list || list->n_items != 1 || p->comma)
        return list;
    list->items[0]->at = list->at;
    return list->items[0];
}

// f(a, axis = 1) from after its parenthesis
static struct expr *parse_call(struct parser *p, struct token callee, struct span open)
{
    struct expr *call = expr_new(p, EXPR_call, callee.at);
    call->text = token_text(p->g, &callee);
    bool ok = accept(p, TOKEN_right), more = !ok;
    while (more) {
        struct span keyword = {0};
        if (p->token.kind == TOKEN_name && p->next.kind == TOKEN_assign) {
            keyword = p->token.at;
            advance(p);
            advance(p);
        }
        struct expr *item = parse_expr(p);
        if (!item)
            return NULL;
        int n = call->n_items;
        call->keywords = array_room(p->g, call->keywords, n, sizeof keyword);
        call->keywords[n] = keyword;
        append(p, call, item);
        more = list_goes_on(p, TOKEN_right, open, &ok);
    }
    call->at = span_from(callee.at, p->last.at);
    return ok ? call : NULL;
}

// One end of start:stop:step, or nothing
static bool parse_bound(struct parser *p, struct expr **bound)
{
    enum token_kind kind = p->token.kind;
    if (kind == TOKEN_colon || kind == TOKEN_comma || kind == TOKEN_right_bracket)
        return true;
    *bound = parse_expr(p);
    return *bound;
}

static bool parse_index_item(struct parser *p, struct index *index)
{
    struct span first = p->token.at;
    index->at = first;
    if (accept(p, TOKEN_rest)) {
        index->kind = INDEX_rest;
        return true;
    }
    if (p->token.kind == TOKEN_comma || p->token.kind == TOKEN_right_bracket)
        return fail_expected(p, "an index");
    if (!parse_bound(p, &index->start))
        return false;
    index->kind = INDEX_at;
    if (accept(p, TOKEN_colon)) {
        index->kind = INDEX_range;
        if (!parse_bound(p, &index->stop))
            return false;
        if (accept(p, TOKEN_colon) && !parse_bound(p, &index->step))
            return false;
    }
    if (index->kind == INDEX_at && index->start->kind == EXPR_none)
        index->kind = INDEX_new;
    index->at = span_from(first, p->last.at);
    return true;
}

// left[...] from after its bracket
static struct expr *parse_index(struct parser *p, struct expr *left)
{
    struct span open = p->last.at;
    struct expr *e = expr_new(p, EXPR_index, left->at);
    e->left = left;
    bool ok = false;
    do {
        e->indices = array_room(p->g, e->indices, e->n_items, sizeof(struct index));
        if (!parse_index_item(p, &e->indices[e->n_items++]))
            return NULL;
    } while (list_goes_on(p, TOKEN_right_bracket, open, &ok));
    e->at = span_from(left->at, p->last.at);
    return ok ? e : NULL;
}

static struct expr *parse_attribute(struct parser *p, struct expr *left)
{
    struct token name = p->token;
    struct gen *g = p->g;
    if (!expect(p, TOKEN_name, "`T` after `.`"))
        return NULL;
    if (!is_word(&name, "T")) {
        const char *text = token_text(g, &name);
        if (p->token.kind == TOKEN_left)
            fail_at(g, name.at, "there are no methods: write %s(x) for x.%s()", text, text);
        else
            fail_at(g, name.at,
                    "unknown attribute `%s`; there are .T, shape(x), size(x, axis), rank(x) "
                    "and dtype(x)",
                    text);
        return NULL;
    }
    struct expr *e = expr_new(p, EXPR_transpose, span_from(left->at, name.at));
    e->left = left;
    return e;
}

static struct expr *parse_literal(struct parser *p)
{
    struct token t = p->token;
    struct expr *e = expr_new(p, EXPR_bool, t.at);
    advance(p);
    e->integer = t.integer;
    e->number = t.number;
    switch ((int)t.kind) {
    case TOKEN_integer:
        e->kind = EXPR_integer;
        return e;
    case TOKEN_float:
        e->kind = EXPR_float;
        return e;
    case TOKEN_inf:
    case TOKEN_nan:
        e->kind = EXPR_float;
        e->number = t.kind == TOKEN_inf ? (double)INFINITY : (double)NAN;
        return e;
    case TOKEN_true:
    case TOKEN_True:
        e->integer = 1;
        return e;
    case TOKEN_false:
    case TOKEN_False:
        return e;
    case TOKEN_None:
        e->kind = EXPR_none;
        return e;
    case TOKEN_text:
        e->kind = EXPR_text;
        e->text = arena_text(p->g, "%.*s", t.at.len - 2, t.at.at + 1);
        return e;
    }
    return NULL;
}

static bool begins_literal(enum token_kind kind)
{
    return kind == TOKEN_integer || kind == TOKEN_float || kind == TOKEN_text ||
           kind == TOKEN_inf || kind == TOKEN_nan || kind == TOKEN_true || kind == TOKEN_True ||
           kind == TOKEN_false || kind == TOKEN_False || kind == TOKEN_None;
}

static struct expr *parse_atom(struct parser *p)
{
    struct token t = p->token;
    if (begins_literal(t.kind))
        return parse_literal(p);
    if (accept(p, TOKEN_left))
        return parse_parenthesis(p);
    if (accept(p, TOKEN_left_bracket))
        return parse_items(p, expr_new(p, EXPR_list, t.at), TOKEN_right_bracket);
    if (!accept(p, TOKEN_name)) {
        if (t.kind == TOKEN_not)
            fail_at(p->g, t.at,
                    "`not` binds less tightly than what stands before it: put it in parentheses");
        else
            fail_expected(p, "a value");
        return NULL;
    }
    if (accept(p, TOKEN_left))
        return parse_call(p, t, p->last.at);
    struct expr *e = expr_new(p, EXPR_name, t.at);
    e->text = token_text(p->g, &t);
    return e;
}

// x.T[0]: each one nests the tree
static struct expr *parse_postfix(struct parser *p)
{
    struct expr *e = parse_atom(p);
    int depth = p->depth;
    while (e && (p->token.kind == TOKEN_left_bracket || p->token.kind == TOKEN_dot ||
                 p->token.kind == TOKEN_left)) {
        if (p->token.kind == TOKEN_left) {
            fail_at(p->g, p->token.at, "only a function's name can be called");
            return NULL;
        }
        if (!enter(p))
            return NULL;
        advance(p);
        e = p->last.kind == TOKEN_dot ? parse_attribute(p, e) : parse_index(p, e);
    }
    p->depth = depth;
    return e;
}

static struct expr *unary(struct parser *p, struct token symbol, struct expr *operand)
{
    if (!operand)
        return NULL;
    struct expr *e = expr_new(p, EXPR_unary, span_from(symbol.at, operand->at));
    e->symbol = symbol.kind;
    e->left = operand;
    return e;
}

static struct expr *binary(struct parser *p, struct expr *left, enum token_kind symbol,
                           struct expr *right)
{
    if (!right)
        return NULL;
    struct expr *e = expr_new(p, EXPR_binary, span_from(left->at, right->at));
    e->symbol = symbol;
    e->left = left;
    e->right = right;
    return e;
}

// -x ** y is -(x ** y), and x ** -y is allowed
static struct expr *parse_unary(struct parser *p)
{
    struct token t = p->token;
    if (!enter(p))
        return NULL;
    struct expr *e;
    if (accept(p, TOKEN_minus)) {
        e = unary(p, t, parse_unary(p));
    } else if (accept(p, TOKEN_plus)) {
        e = parse_unary(p);
    } else {
        e = parse_postfix(p);
        if (e && accept(p, TOKEN_power))
            e = binary(p, e, TOKEN_power, parse_unary(p));
    }
    p->depth--;
    return e;
}

enum { LEVEL_none, LEVEL_or, LEVEL_and, LEVEL_not, LEVEL_compare, LEVEL_sum, LEVEL_product };

static int level(enum token_kind kind)
{
    switch ((int)kind) {
    case TOKEN_or:
        return LEVEL_or;
    case TOKEN_and:
        return LEVEL_and;
    case TOKEN_lt:
    case TOKEN_le:
    case TOKEN_gt:
    case TOKEN_ge:
    case TOKEN_eq:
    case TOKEN_ne:
        return LEVEL_compare;
    case TOKEN_plus:
    case TOKEN_minus:
        return LEVEL_sum;
    case TOKEN_times:
    case TOKEN_divide:
    case TOKEN_floor_divide:
    case TOKEN_modulo:
    case TOKEN_at:
        return LEVEL_product;
    }
    return LEVEL_none;
}

static struct expr *parse_not(struct parser *p)
{
    struct token t = p->token;
    advance(p);
    if (!enter(p))
        return NULL;
    struct expr *e = unary(p, t, parse_binary(p, LEVEL_not));
    p->depth--;
    return e;
}

// Operators that bind at least as tightly as `lowest`
static struct expr *parse_binary(struct parser *p, int lowest)
{
    bool negated = p->token.kind == TOKEN_not && lowest <= LEVEL_not;
    struct expr *left = negated ? parse_not(p) : parse_unary(p);
    for (int last = LEVEL_none; left;) {
        struct token t = p->token;
        int now = level(t.kind);
        if (now == LEVEL_none || now < lowest)
            return left;
        if (now == LEVEL_compare && last == LEVEL_compare) {
            fail_at(p->g, t.at, "comparisons do not chain: write a < b and b < c");
            return NULL;
        }
        advance(p);
        left = binary(p, left, t.kind, parse_binary(p, now + 1));
        last = now;
    }
    return NULL;
}

struct expr *parse_expr(struct parser *p)
{
    if (!enter(p))
        return NULL;
    struct expr *e = parse_binary(p, LEVEL_or);
    p->depth--;
    return e;
}
