#!/bin/bash
# run.sh QUERN OUTDIR [--only TEXT] [--budget SECONDS]: every row of rows.txt on the GPU here, with its outputs checked,
# and PyTorch beside it where there is one: OUTDIR/h200.json, OUTDIR/table.md and a roofline a row.  Takes under eight
# minutes.  To keep the results: copy h200.json to tools/bench/results.  QUERN_COMMIT names the commit where there is
# no git.
set -u
here=$(cd "$(dirname "$0")" && pwd)
if [ $# -lt 2 ]; then
    echo "usage: run.sh QUERN OUTDIR [--only TEXT] [--budget SECONDS]" >&2
    exit 2
fi
quern=$(realpath "$1") out=$2
shift 2
mkdir -p "$out" || exit 3
QUERN_CACHE_DIR=$(mktemp -d) # so that every first use is one
export QUERN_CACHE_DIR PYTHONDONTWRITEBYTECODE=1
trap 'rm -rf "$QUERN_CACHE_DIR"' EXIT

if command -v python3 >/dev/null; then
    python3 "$here/peers.py" "$quern" "$out" "$@"
    exit $?
fi

# Without Python: quern alone, a file a row, and the checks that it can do itself.
failed=0
while read -r name check program options; do
    case $name in '' | '#'*) continue ;; esac
    echo "== $name"
    # shellcheck disable=SC2086
    timeout 120 "$quern" bench "$here/$program" $options --random 1 --plot "$out/$name.svg" --json --device cuda \
        </dev/null >"$out/$name.json" || failed=1
    [ "$check" = torch ] && continue
    # shellcheck disable=SC2086
    timeout 120 "$quern" run "$here/$program" $options --random 1 --check --device cuda </dev/null || failed=1
done <"$here/rows.txt"
exit $failed
