// nearest.c: a mistyped word to the word that was probably meant.

#include "tools/tools.h"
#include <string.h>

enum { MAX_WORD = 31 };

// Insertions, deletions, substitutions and swaps of neighbours that turn a into b; both at most
// MAX_WORD long.
static int distance(const char *a, const char *b)
{
    int d[MAX_WORD + 1][MAX_WORD + 1];
    int n = (int)strlen(a), m = (int)strlen(b);
    for (int i = 0; i <= n; i++)
        for (int j = 0; j <= m; j++) {
            if (i == 0 || j == 0) {
                d[i][j] = i + j;
                continue;
            }
            int best = d[i - 1][j - 1] + (a[i - 1] != b[j - 1]);
            best = d[i - 1][j] + 1 < best ? d[i - 1][j] + 1 : best;
            best = d[i][j - 1] + 1 < best ? d[i][j - 1] + 1 : best;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                best = d[i - 2][j - 2] + 1 < best ? d[i - 2][j - 2] + 1 : best;
            d[i][j] = best;
        }
    return d[n][m];
}

const char *nearest(const char *word, const char *const *candidates, int n)
{
    const char *found = NULL;
    if (strlen(word) > MAX_WORD)
        return NULL;
    int bound = (int)strlen(word) / 2 < 3 ? (int)strlen(word) / 2 : 3;
    for (int i = 0; i < n; i++) {
        int far = strlen(candidates[i]) > MAX_WORD ? MAX_WORD : distance(word, candidates[i]);
        if (far <= bound) {
            found = candidates[i];
            bound = far - 1;
        }
    }
    return found;
}
