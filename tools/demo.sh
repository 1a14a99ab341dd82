#!/bin/sh
# demo.sh: installs what is missing, builds, and runs and checks the first example.  `make demo` calls it.
set -u
cd "$(dirname "$0")/.." || exit 3
. tools/packages.sh
mkdir -p build
log=build/demo.log
: >"$log"

step() { printf '%-10s' "$1:"; }
fail() { # fail STATUS SENTENCE: with the end of the log, where the reason is
    echo "$2"
    tail -n 15 "$log" | sed 's/^/    /'
    exit "$1"
}

step packages
# shellcheck disable=SC2086
if [ -n "$(missing_packages $packages)" ]; then
    echo "installing $(missing_packages $packages)"
    install_packages $packages >>"$log" 2>&1
    missing=$(missing_packages $packages)
    step packages
    [ -z "$missing" ] || fail 3 "${missing}cannot be installed here; quern needs $packages (Debian's names)"
fi
echo "all there"

step toolkit
CUDA_HOME=$(cuda_home) || fail 3 "no CUDA toolkit: set CUDA_HOME to the folder with include/cuda.h and include/nvrtc.h"
export CUDA_HOME
echo "$CUDA_HOME"

step build
make -s -j"$(nproc 2>/dev/null || echo 2)" all >>"$log" 2>&1 || fail 1 "failed; $log says why:"
echo "build/quern"

run="build/quern run tools/examples/quant_linear.qn -D B=8 -D T=64 -D D=128 --random 1 --check"
echo "\$ $run"
$run 2>&1
checked=$?
[ $checked = 0 ] || exit $checked

emit="build/quern emit tools/examples/quant_linear.qn -D B=8 -D T=64 -D D=128 --arch sm_90a,sm_80 -o build/demo"
echo "\$ $emit"
$emit 2>&1
emitted=$?
[ $emitted = 0 ] || [ $emitted = 3 ] || exit $emitted

step result
if [ $emitted = 3 ]; then
    echo "the fused operator is right; cubins need NVRTC (see build/quern doctor)"
else
    echo "the fused operator is right, and its cubins for two GPUs are in build/demo"
fi
