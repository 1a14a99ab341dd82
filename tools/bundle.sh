#!/bin/sh
# bundle.sh BUILD: the command, the tests and the libraries they load, to BUILD/bundle, for a machine that has a
# driver and NVRTC and nothing else.  The programs look for libraries beside themselves first (their rpath).
set -eu
cd "$(dirname "$0")/.."
rm -rf "$1/bundle"
mkdir -p "$1/bundle/examples"
cp "$1/quern" "$1/check" "$1/quant_linear" "$1/bundle"
cp tools/examples/*.qn "$1/bundle/examples"
ldd "$1/quern" "$1/check" | awk '/lib(sodium|jansson|subunit)/ {print $3}' | sort -u |
    xargs -I LIBRARY cp LIBRARY "$1/bundle"
du -sh "$1/bundle"
