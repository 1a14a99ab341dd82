#!/bin/sh
# sanitize.sh QUERN: every example, and programs whose kernels wait for other blocks, on the GPU here under each tool of
# compute-sanitizer.  A line a run, and what the tool said where it found something; status 1 then.
set -u
cd "$(dirname "$0")/.." || exit 3
quern=${1:?usage: sanitize.sh QUERN}
tool=$(command -v compute-sanitizer || command -v "${CUDA_HOME:-/usr/local/cuda}/bin/compute-sanitizer")
[ -n "$tool" ] || {
    echo "sanitize: left out, since there is no compute-sanitizer here"
    exit 0
}
log=$(mktemp)
trap 'rm -f "$log"' EXIT
found=0

# FILE OPTIONS, small: a tool makes a run up to a thousand times as long
programs="tools/examples/quant_linear.qn -D B=8 -D T=64 -D D=128
tools/examples/quant_linear.qn -D B=8 -D T=64 -D D=128 --separate
tools/examples/quant_linear.qn -D B=2 -D T=37 -D D=97 -D N=61
tools/examples/quant_linear.qn -D B=1 -D T=64 -D D=128
tools/examples/quant_linear.qn -D B=16 -D T=64 -D D=128
tools/examples/linear_mean_gelu.qn -D B=128 -D I=1024 -D O=512 --weights each-run
tools/examples/linear_mean_gelu.qn -D B=20 -D I=8192 -D O=2048 --weights each-run
tools/examples/linear_mean_gelu.qn -D B=33 -D I=129 -D O=64 --weights each-run --math strict
tools/examples/attention_scores.qn -D B=1 -D H=2 -D T=65 -D S=70 -D D=32
tools/examples/mlp.qn -D B=33 -D D=64
tools/examples/column_stats.qn -D R=3000 -D N=100
tools/examples/column_stats.qn -D R=3000 -D N=100 --separate
tools/examples/softmax.qn -D R=37 -D N=1000
tools/examples/softmax.qn -D R=70 -D N=40960
tools/examples/layer_norm.qn -D R=70 -D N=40960
tools/examples/softmax.qn -D R=140 -D N=65536
tools/examples/rms_norm.qn -D R=40 -D N=131072
tools/bench/layer_norm_f32.qn -D R=100 -D N=131072
tools/bench/layer_norm_f32.qn -D R=150 -D N=4096
tools/bench/layer_norm_f32.qn -D R=400 -D N=16384
tools/bench/softmax_bf16.qn -D R=20 -D N=16384
tools/bench/softmax_f32.qn -D R=24 -D N=1048576
tools/bench/amax.qn -D N=1000003
tools/bench/transpose_add.qn -D N=257
tools/bench/matmul.qn -D N=300"

for check in memcheck racecheck synccheck initcheck; do
    echo "$programs" | while read -r run; do
        # shellcheck disable=SC2086
        "$tool" --tool "$check" --error-exitcode 9 "$quern" run $run --random 1 --check --device cuda >"$log" 2>&1
        status=$?
        [ $status = 0 ] && said=clean || said="status $status"
        echo "$check  $run: $said"
        [ $status = 0 ] || {
            sed 's/^/    /' "$log" | tail -n 30
            exit 1
        }
    done || found=1
done
[ $found = 0 ] && echo "sanitize: clean"
exit $found
