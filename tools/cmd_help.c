// cmd_help.c: `quern help`: what the commands do and take.

#include "tools/tools.h"
#include <string.h>

static const char summary[] =
    "quern grinds a small tensor program into fused CUDA kernels and runs them.\n"
    "\n"
    "  quern emit    FILE.qn -D B=8 ... --arch sm_90a,sm_80 -o out/   kernels as files\n"
    "  quern run     FILE.qn -D B=8 ... --random 1 --check            run and check\n"
    "  quern bench   FILE.qn -D B=8 ...                               what a run costs, and its "
    "floor\n"
    "  quern explain FILE.qn -D B=8 ... --arch sm_90a                 what it becomes, and why\n"
    "  quern tune    FILE.qn -D B=8 ... --budget 60s                  measure which specs are "
    "fastest here\n"
    "  quern wisdom  show|export|import|merge|forget                  what tuning found\n"
    "  quern cache   path|list|verify|prune|clear                     the compiled kernels kept on "
    "disk\n"
    "  quern doctor                                                   what this machine has and "
    "lacks\n"
    "  quern help    COMMAND                                          the options of a command\n"
    "  quern --version\n"
    "\n"
    "Exit status: 0 done; 1 the program or its data is wrong, or a check failed; 2 usage;\n"
    "3 something is missing on the machine.\n";

static const char program_options[] =
    "  FILE               a program; - is standard input\n"
    "  -D NAME=NUMBER     a size of the program, from 0 to 2^40\n"
    "  --math MODE        strict: operator by operator, bit-identical to the reference;\n"
    "                     real: also what is equal in real arithmetic: sums in another order, "
    "products\n"
    "                     fused, terms moved, merged and cancelled (default);\n"
    "                     finite: also what holds for finite values alone, as x - x = 0;\n"
    "                     fast: also the GPU's approximate instructions, which --check may find "
    "off\n"
    "  --weights MODE     prepared: what depends on weights alone is computed once, and kept "
    "(default);\n"
    "                     each-run: nothing is kept, it is computed in every run\n"
    "  --alignment N      promise that every argument's address is a multiple of N bytes, 1 to "
    "256\n"
    "                     (default 16)\n"
    "  --separate         a launch for every kernel: short ones are not joined into one\n";

static const char emit_text[] =
    "quern emit FILE -D NAME=NUMBER ... [--arch ARCH,...] [-o FOLDER] [--format cubin|source]\n"
    "\n"
    "Compiles a program for each arch and writes NAME.ARCH.cubin (of several kernels:\n"
    "NAME.KERNEL.ARCH.cubin) and NAME.json, which says how to launch them.  Needs no GPU and no "
    "driver.\n"
    "All files or none are written; the same inputs give the same bytes.\n"
    "\n";

static const char emit_options[] =
    "  --arch ARCH,...    sm_90a, sm_80, ...; native: of the GPU here (default; without one "
    "sm_90a)\n"
    "  -o FOLDER          where to write, made if need be (default: here)\n"
    "  --format FORMAT    cubin (default), or source: .cu files, for which no NVRTC is needed\n"
    "  --no-cache         neither read nor write the cache of compiled kernels\n"
    "  --offline          never compile: what the cache lacks is an error\n"
    "  --wisdom FILE      specs that `quern wisdom export` wrote, on whatever machine; without it "
    "the\n"
    "                     model chooses, whatever this machine knows\n";

static const char run_text[] =
    "quern run FILE [-D NAME=NUMBER ...] [--in NAME=FILE.npy ...] [--random SEED] [--out "
    "NAME=FILE.npy ...]\n"
    "          [--check] [--expect NAME=FILE.npy ...] [--time] [--device auto|cuda|host] [--json]\n"
    "\n"
    "Runs a program and says what came out.\n"
    "\n";

static const char run_options[] =
    "  --in NAME=FILE     data of an input or a weight; its shape settles sizes that -D does not "
    "give\n"
    "  --random SEED      data for those without --in: floats nearly normal (0, 1), weights of "
    "rank 2 and\n"
    "                     more divided by the square root of their last dimension, integers "
    "small;\n"
    "                     never 0, and the same on every machine\n"
    "  --out NAME=FILE    write an output\n"
    "  --check            compare every output with the f64 reference; exit status 1 if one is "
    "off\n"
    "  --expect NAME=FILE compare an output with a file\n"
    "  --time             time replays of a CUDA graph (on the host: calls)\n"
    "  --device DEVICE    auto: the GPU where there is one, else host (default)\n"
    "  --arch ARCH        compile for another arch than the device's; the host runs any\n"
    "  --json             one JSON object on standard output, text for people on standard error\n"
    "  --no-cache         neither read nor write the cache of compiled kernels\n"
    "  --offline          never compile: what the cache lacks is an error\n"
    "  --no-wisdom        leave the specs to the model, whatever `quern tune` found\n"
    "  --wisdom FILE      specs of an exported file in place of this machine's\n"
    "  -v                 say which kernels run\n"
    "With --alignment N, arguments are placed at multiples of N bytes and of no more.\n";

static const char bench_text[] =
    "quern bench FILE [-D NAME=NUMBER ...] [--in NAME=FILE.npy ...] [--random SEED] [--out "
    "NAME=FILE.npy ...]\n"
    "            [--device auto|cuda|host] [--json] [--plot FILE.svg]\n"
    "\n"
    "Says what a run costs on a GPU, median, minimum and maximum:\n"
    "  replay             replayed from a CUDA graph, its data in memory and not in the cache\n"
    "  warm               the same with its data in the cache, where it fits\n"
    "  call               called from the host\n"
    "and next to it, measured in turns with it:\n"
    "  copy               a copy on the device that moves as many bytes\n"
    "  empty              a kernel that does nothing\n"
    "and what the first use costs, without (cold) and with the cache of compiled kernels "
    "(cached).\n"
    "On the host: the wall clock of a call, and no measure of the kernels.\n"
    "\n";

static const char bench_options[] =
    "  --in, --out, --random, --device, --arch, --no-cache, --offline, --no-wisdom, --wisdom: as "
    "run\n"
    "                     has them; without --random the seed is 1\n"
    "  --json             one JSON object on standard output, text for people on standard error\n"
    "  --plot FILE.svg    draw the run under the roofs of memory and arithmetic\n";

static const char explain_text[] =
    "quern explain FILE -D NAME=NUMBER ... [--arch ARCH] [--specs] [--device host] [--dump "
    "STAGE,...] [--json]\n"
    "\n"
    "Says which rules rewrote a program, where, their class (exact, real or finite: see --math) "
    "and what\n"
    "they saved; which kernels it becomes, what they move and compute, and how long that takes at "
    "least.\n"
    "\n";

static const char explain_options[] =
    "  --arch ARCH        sm_90a, ...; native: of the GPU here (default; without one sm_90a)\n"
    "  --specs            list the specs that each kernel could have: the one that a model "
    "chooses, "
    "then the\n"
    "                     others by the time that it predicts\n"
    "  --dump STAGE,...   also show what stages made: parse, graph, rewrite (after each rule), "
    "split,\n"
    "                     fuse, schedule, source; or all\n"
    "  --device DEVICE    host, cuda: what that device runs, with its wisdom; else for the GPU's "
    "own "
    "arch\n"
    "                     what the GPU runs, with its wisdom\n"
    "  --no-wisdom, --wisdom FILE: as run has them\n"
    "  --json             one JSON object on standard output, dumps on standard error\n";

static const char tune_text[] =
    "quern tune FILE -D NAME=NUMBER ... [--effort measure|patient] [--budget 60s] [--random SEED]\n"
    "           [--device auto|cuda|host] [--json]\n"
    "\n"
    "Measures which specs (tile sizes, threads, vectors, ...) make a run of a program fastest on "
    "the\n"
    "device here, and keeps them as wisdom, which run, bench and explain use from then on.  Kernel "
    "by\n"
    "kernel, each candidate is compiled, run, checked against the f64 reference and timed, on "
    "random\n"
    "data, as bench's replay; the fastest then meet the model's choice in turns.  A winner has to "
    "win "
    "by\n"
    "2 %, and the result is never slower than the model's choice.\n"
    "\n";

static const char tune_options[] =
    "  --effort EFFORT    measure: the few candidates that the model likes best (default);\n"
    "                     patient: all of them, which explain --specs lists\n"
    "  --budget TIME      begin no other candidate after that, such as 60s or 5m; what was not "
    "tried is\n"
    "                     said; each kernel gets its share (default: no bound)\n"
    "  --random SEED      of the data (default 1)\n"
    "  --device, --arch, --no-cache, --offline: as run has them; without a cache nothing is kept\n"
    "  --json             one JSON object on standard output, text for people on standard error\n";

static const char wisdom_text[] =
    "quern wisdom show|export|import|merge|forget [FILE or PROGRAM] [--json]\n"
    "\n"
    "What quern tune found, one record a program, sizes, options and GPU, beside the cache of "
    "compiled\n"
    "kernels.  A record is used where GPU, driver, NVRTC and quern are those it was measured "
    "with.\n"
    "\n"
    "  show               the records; --json: as export writes them\n"
    "  export [FILE]      all of them as one file (default: standard output)\n"
    "  import FILE        take those of an exported file, in place of what is here\n"
    "  merge FILE         the same, but keep what was measured here to be as fast\n"
    "  forget [PROGRAM]   remove those of a program, or all\n";

static const char cache_text[] =
    "quern cache path|list|verify|prune|clear\n"
    "\n"
    "  path               the folder of compiled kernels: $QUERN_CACHE_DIR, else "
    "$XDG_CACHE_HOME/quern,\n"
    "                     else ~/.cache/quern\n"
    "  list               its kernels\n"
    "  verify             read every kernel; list the damaged ones; exit status 1 if there are "
    "any\n"
    "  prune              remove the least recently used beyond 1 GiB, or --max-bytes N\n"
    "  clear              remove all\n";

static const char doctor_text[] =
    "quern doctor [--json] [-v]\n"
    "\n"
    "Says what was found on this machine and what to install.  -v: also where it was looked for.\n"
    "Exit status 3 where neither a GPU nor the host can run a program.\n";

static const char environment_text[] =
    "The environment:\n"
    "  QUERN_CACHE_DIR    the folder of the cache\n"
    "  QUERN_OFFLINE=1    as --offline\n"
    "  QUERN_CXX          the C++ compiler of the host device (default c++)\n"
    "  QUERN_CXXFLAGS     further flags for it, such as -fsanitize=address,undefined\n"
    "  CUDA_HOME          where to look for NVRTC first\n";

static const struct {
    const char *topic, *parts[3];
} topics[] = {
    {"emit",    {emit_text, program_options, emit_options}      },
    {"run",     {run_text, program_options, run_options}        },
    {"bench",   {bench_text, program_options, bench_options}    },
    {"explain", {explain_text, program_options, explain_options}},
    {"tune",    {tune_text, program_options, tune_options}      },
    {"wisdom",  {wisdom_text, "", ""}                           },
    {"cache",   {cache_text, "", ""}                            },
    {"doctor",  {doctor_text, "", ""}                           },
    {"help",    {summary, "\n", environment_text}               },
};
enum { N_TOPICS = sizeof topics / sizeof *topics };

void usage(FILE *out)
{
    fputs(summary, out);
}

enum exit_status cmd_help(const struct options *o)
{
    const char *names[N_TOPICS], *wanted = o->operand ? o->operand : "help";
    for (int i = 0; i < N_TOPICS; i++) {
        names[i] = topics[i].topic;
        if (strcmp(names[i], wanted))
            continue;
        for (int k = 0; k < 3; k++)
            fputs(topics[i].parts[k], stdout);
        return STATUS_done;
    }
    const char *near = nearest(wanted, names, N_TOPICS);
    return near ? complain(STATUS_usage, "help: unknown topic %s; did you mean %s?", wanted, near)
                : complain(STATUS_usage, "help: unknown topic %s; see `quern help`", wanted);
}
