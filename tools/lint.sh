#!/bin/sh
# lint.sh BUILD: the house rules that a program can check.  Prints each breach; status 1 if there is one.
cd "$(dirname "$0")/.." || exit 3
build=$1
breaches=0
breach() { # breach SENTENCE LINES
    [ -z "$2" ] && return
    printf '%s\n%s\n' "$1" "$2" | sed '2,$s/^/    /'
    breaches=1
}
sources=$(git ls-files -co --exclude-standard -- '*.c' '*.h')

# shellcheck disable=SC2086
breach "over 100 columns:" "$(awk 'length($0) > 100 {n[FILENAME]++} END {for (f in n) print f ": " n[f] " lines"}' \
    $sources templates/*.cuh)"
breach "gen/ is pure: no CUDA, nothing of runtime/, no environment, no clock:" \
    "$(grep -nE '#include.*(cuda|nvrtc|runtime/)|getenv|time\(|clock_gettime' gen/*.[ch])"
breach "tools/ knows runtime/quern.h alone:" \
    "$(grep -rnE '#include "(gen|templates|runtime)/' tools --include='*.[ch]' | grep -v '"runtime/quern.h"')"
breach "a mutable global in gen/:" \
    "$(for o in "$build"/gen/*.o; do
        size -A "$o" | awk -v o="$o" '$1 ~ /^\.(data|bss|tdata|tbss)$/ && $2 > 0 {print o ": " $1}'
    done)"
breach "left open:" "$(git grep -nwE 'TODO|FIXME|XXX' -- '*.c' '*.h' '*.cuh' '*.qn' '*.def')"
if command -v clang-format >/dev/null; then
    breach "not as clang-format writes it:" \
        "$(for f in $sources; do
            clang-format --dry-run -Werror "$f" >/dev/null 2>&1
            [ $? = 1 ] && echo "$f" # more than 1: it crashed, as version 14 can on arrays of structures
        done 2>/dev/null)"
fi
if command -v shellcheck >/dev/null; then
    breach "shellcheck:" "$(shellcheck -x -f gcc tools/*.sh .ci/run)"
fi
[ $breaches = 0 ] && echo "lint: clean"
exit $breaches
