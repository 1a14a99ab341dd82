// syntax.h: what lex.c hands to parse.c (tokens) and parse.c to build.c (the tree).  Every node has
// its span.
#pragma once
#include "gen/gen.h"

// map.c: names to whatever they name, in constant time

struct map_entry {
    const char *name; // not terminated
    int len;
    void *value;
};

struct map {
    struct map_entry *entries; // open addressing; capacity is a power of two
    int n, capacity;
};

void *map_find(const struct map *map, const char *name, int len); // NULL: not there
void map_put(struct gen *g, struct map *map, const char *name, int len, void *value);
// The one of the map's names that is a likely misspelling's target, nearer than *distance; else
// NULL.
const char *map_nearest(struct gen *g, const struct map *map, const char *name, int *distance);

// An array that grows one by one: items, or a larger copy where n items fill it.
void *array_room(struct gen *g, void *items, int n, size_t item_bytes);

// lex.c

enum token_kind {
    TOKEN_end, // of the text
    TOKEN_bad, // with its message
    TOKEN_newline,
    TOKEN_name,
    TOKEN_integer,
    TOKEN_float,
    TOKEN_text, // "..." or '...'
#define TOKEN(name, spelling) TOKEN_##name,
#define KEYWORD(name) TOKEN_##name,
#include "gen/tokens.def"
#undef TOKEN
#undef KEYWORD
    TOKEN_COUNT
};

struct token {
    enum token_kind kind;
    bool first; // on its line
    struct span at;
    int64_t integer;
    double number;
    const char *message; // of a bad one
};

struct lexer {
    const char *at, *end;
    int depth;  // of open ( and [: inside them a newline is a blank
    bool fresh; // nothing but blanks on this line so far
};

void lex_start(struct lexer *l, const struct source *source);
struct token lex(struct lexer *l);
const char *token_name(enum token_kind kind); // as it is written, or what it is

// parse_expr.c and parse.c

enum expr_kind {
    EXPR_name,
    EXPR_integer,
    EXPR_float,
    EXPR_text,
    EXPR_bool,
    EXPR_none,
    EXPR_list,      // items
    EXPR_unary,     // symbol, left
    EXPR_binary,    // symbol, left, right
    EXPR_call,      // text, items with keywords
    EXPR_index,     // left, indices
    EXPR_transpose, // left.T
};

struct expr {
    enum expr_kind kind;
    enum token_kind symbol;
    struct span at;
    const char *text; // name, function or string; not an empty one
    int64_t integer;  // and the truth of a bool
    double number;
    struct expr *left, *right;
    int n_items;
    struct expr **items;
    struct span *keywords; // of each item of a call; .at is NULL for a positional one
    struct index *indices; // n_items of them
};

enum index_kind { INDEX_at, INDEX_range, INDEX_new, INDEX_rest };

struct index {
    enum index_kind kind; // x[3]  x[1:2]  x[None]  x[...]
    struct span at;
    struct expr *start, *stop, *step; // NULL where left out; INDEX_at: start
};

struct type_ast {
    struct span at;
    enum dtype dtype;
    int rank;
    struct expr *dim[MAX_RANK];
};

enum statement_kind {
    STATEMENT_argument,
    STATEMENT_assign,
    STATEMENT_output,
    STATEMENT_return,
    STATEMENT_if,
    STATEMENT_call // error(...), for what it does
};

struct block {
    int n;
    struct statement **statements;
};

struct statement {
    enum statement_kind kind;
    enum op op; // OP_input, OP_weight
    struct span at, name_at;
    const char *name;
    struct type_ast *type; // NULL: not written
    struct expr *value;    // NULL: not written.  if: the condition
    struct block then, otherwise;
};

struct parameter {
    const char *name;
    struct span at;
    struct expr *fallback; // NULL: must be given
};

struct function {
    const char *name;
    struct span at;
    struct parameter *parameters;
    int n_parameters;
    struct block body;
};

struct program_ast {
    const struct source *source;
    const char *name; // NULL: a file of functions alone, as the prelude is
    struct span at;
    struct parameter *sizes;
    int n_sizes;
    struct function **functions;
    int n_functions;
    struct block body;
};

// The prelude: functions and nothing else.
struct program_ast *parse_functions(struct gen *g, const struct source *source);

// parse_expr.c: what parse.c needs of it

struct parser {
    struct gen *g;
    struct lexer lexer;
    struct token token, next;
    struct token last; // the one before token
    int depth;         // of nested expressions and blocks
    int blocks;        // of these the blocks
    bool comma;        // the list that was closed last ended with one: (a,)
};

enum { MAX_NESTING = 200 };

void advance(struct parser *p);
bool accept(struct parser *p, enum token_kind kind);
bool expect(struct parser *p, enum token_kind kind, const char *expected);
bool fail_expected(struct parser *p, const char *expected); // "expected `)`, got `x`"
// After an item of a list: whether another one follows.  At the closing bracket false and *ok.
bool list_goes_on(struct parser *p, enum token_kind close, struct span open, bool *ok);
bool enter(struct parser *p); // one level deeper, or an error
bool is_word(const struct token *t, const char *word);
const char *token_text(struct gen *g, const struct token *t);
struct expr *parse_expr(struct parser *p);
struct span span_from(struct span first, struct span last);
