// golden.c: recorded cases in, a failure that shows both texts out where a stage says something
// else now.

#include "tests/golden.h"
#include "tests/tests.h"
#include <dirent.h>
#include <stdlib.h>
#include <string.h>

static int is_case(const struct dirent *entry)
{
    const char *dot = strrchr(entry->d_name, '.');
    return dot && !strcmp(dot, ".txt");
}

static int list(const char *folder, struct dirent ***entries)
{
    char path[256];
    snprintf(path, sizeof path, "tests/golden/%s", folder);
    return scandir(path, entries, is_case, alphasort);
}

static void free_list(int n, struct dirent **entries)
{
    for (int i = 0; i < n; i++)
        free(entries[i]);
    if (n >= 0)
        free(entries);
}

int golden_count(const char *folder)
{
    struct dirent **entries;
    int n = list(folder, &entries);
    free_list(n, entries);
    return n > 0 ? n : 1;
}

static void case_path(const char *folder, int i, char *path, size_t bytes)
{
    struct dirent **entries;
    int n = list(folder, &entries);
    if (n <= i)
        ck_abort_msg("tests/golden/%s has no case %d; tests run in the root of the tree", folder,
                     i);
    snprintf(path, bytes, "tests/golden/%s/%s", folder, entries[i]->d_name);
    free_list(n, entries);
}

static char *read_all(const char *path)
{
    FILE *in = fopen(path, "rb");
    ck_assert_msg(in != NULL, "%s cannot be read", path);
    fseek(in, 0, SEEK_END);
    size_t n = (size_t)ftell(in);
    rewind(in);
    char *text = calloc(n + 1, 1);
    ck_assert_uint_eq(fread(text, 1, n, in), n);
    fclose(in);
    return text;
}

static const char separator[] = "\n----\n";

// Cuts the text after the input's last newline; the output, or NULL where there is none.
static char *output_in(char *text)
{
    char *at = strstr(text, separator);
    if (!at)
        return NULL;
    at[1] = '\0';
    return at + strlen(separator);
}

static char *produced(const char *input, void (*produce)(const char *input, FILE *out))
{
    char *text;
    size_t n;
    FILE *out = open_memstream(&text, &n);
    produce(input, out);
    fclose(out);
    return text;
}

static void rewrite_case(const char *path, const char *input, const char *output)
{
    FILE *out = fopen(path, "wb");
    ck_assert_msg(out != NULL, "%s cannot be written", path);
    fprintf(out, "%s%s%s", input, separator + 1, output);
    ck_assert_int_eq(fclose(out), 0);
}

// The first line that differs, in either text; check's messages are short.
static void fail_at_first_difference(const char *path, const char *expected, const char *got)
{
    size_t line = 0;
    for (size_t i = 0; expected[i] == got[i]; i++)
        if (expected[i] == '\n')
            line = i + 1;
    ck_abort_msg("%s\n-- recorded\n%.1500s\n-- now\n%.1500s", path, expected + line, got + line);
}

void golden_check(const char *folder, int i, void (*produce)(const char *input, FILE *out))
{
    char path[512];
    case_path(folder, i, path, sizeof path);
    char *text = read_all(path), *expected = output_in(text), *got = produced(text, produce);
    const char *mode = getenv("QUERN_GOLDEN");
    if (mode && !strcmp(mode, "rewrite"))
        rewrite_case(path, text, got);
    else if (!expected)
        ck_abort_msg("%s has no output yet: `make golden` writes it", path);
    else if (strcmp(expected, got) != 0)
        fail_at_first_difference(path, expected, got);
    free(got);
    free(text);
}

void golden_input(const char *folder, int i, void (*use)(const char *input, void *with), void *with)
{
    char path[512];
    case_path(folder, i, path, sizeof path);
    char *text = read_all(path);
    output_in(text); // cuts it off
    use(text, with);
    free(text);
}

int golden_sizes(struct gen *g, const char **input, struct size *sizes, int capacity)
{
    int n = 0;
    while (!strncmp(*input, "-D ", 3)) {
        const char *name = *input + 3, *equals = strchr(name, '=');
        ck_assert_msg(equals != NULL && n < capacity, "a size reads -D NAME=VALUE");
        char *end;
        sizes[n].name = arena_text(g, "%.*s", (int)(equals - name), name);
        sizes[n++].value = strtoll(equals + 1, &end, 10);
        *input = end + strspn(end, " ");
    }
    *input += n && **input == '\n';
    return n;
}
