// stitched.c: programs whose kernels become the phases of one launch.

#include "tests/stitched.h"
#include "tests/programs.h"
#include <stdlib.h>

const struct stitched stitched[] = {
  // clang-format off: texts of several lines
    {"columns map",         2, 1, 1,
     "program amax(M, N)\ninput x : %s[M, N]\noutput y = x / (max(abs(x)) + 1)\n"              },
    {"columns map",         2, 1, 0,
     "program shown(M, N)\ninput x : %s[M, N]\ns = max(abs(x))\noutput y = x / (s + 1)\n"
     "output z = s + 0\n"                                                                      },
    {"columns map",         2, 1, 1,
     "program place(M, N)\ninput x : %s[M, N]\ni = argmax(reshape(x, [M * N]))\n"
     "output y = maximum(x, cast(i, %s))\n"                                                    },
    {"columns columns map", 3, 2, 2,
     "program down(M, N)\ninput x : %s[M, N]\noutput y = softmax(x, axis = 0)\n"               },
    {"columns map",         2, 1, 1,
     "program few(M, N)\ninput x : %s[M, N]\nz = x[:, :12]\n"
     "output y = z / (1 + sum(abs(z), axis = 0))\n"                                            },
    {"columns gemm",        2, 1, 1,
     "program product(M, N)\ninput x : %s[M, N]\ninput w : %s[33, N]\n"
     "s = maximum(max(abs(x)), 0.25)\noutput y = linear(x / s, w)\n"                           },
    {"columns gemm",        2, 1, 1,
     "program quant(M, N)\ninput x : %s[M, N]\ninput g : %s[M]\ninput w : %s[27, N]\n"
     "input b : %s[27]\na = sigmoid(g)[:, None]\ns = maximum(max(abs(x)), 1e-3) / 127\n"
     "q = clamp(round(x / s), -127, 127) * s\n"
     "output y = linear(a * q + (1 - a) * x, w, b)\n"                                          },
    {"columns rows",        2, 1, 1,
     "program centred(M, N)\ninput x : %s[M, N]\noutput y = softmax(x - mean(x), axis = 1)\n"  },
    {"columns gemm gemm",   3, 1, 1,
     "program beside(M, N)\ninput x : %s[M, N]\ninput z : %s[M, 20]\ninput w : %s[19, N]\n"
     "input v : %s[23, 20]\ns = 1 + max(abs(x))\noutput p = linear(z, v)\n"
     "output y = linear(x / s, w)\n"                                                           },
    {"gemm gemm",           2, 1, 0,
     "program twice(M, N)\ninput x : %s[M, N]\ninput v : %s[40, N]\ninput w : %s[9, 40]\n"
     "output y = linear(maximum(linear(x, v), 0), w)\n"                                        },
    {"gemm rows",           2, 1, 0,
     "program scores(M, N)\ninput q : %s[M, N]\ninput k : %s[50, N]\n"
     "output y = softmax(q @ k.T, axis = 1)\n"                                                 },
    {"rows gemm",           2, 1, 0,
     "program normed(M, N)\ninput x : %s[M, N]\ninput w : %s[24, N]\n"
     "m = mean(x, axis = 1, keepdims = true)\n"
     "output y = linear((x - m) * (x - m) / (1 + max(abs(x), axis = 1, keepdims = true)), w)\n"},
    {"",                    0, 0, 0,
     "program apart(M, N)\ninput x : %s[M, N]\noutput y = x + 1\noutput z = sum(x, axis = 1)\n"
     "output w = sum(x, axis = 0)\n"                                                           },
    {"",                    0, 0, 0,
     "program chain(M, N)\ninput x : %s[M, N]\na = x - max(x)\nb = a / (1 + max(abs(a)))\n"
     "c = b - mean(b, axis = 0)\noutput y = c + min(c)\n"                                      },
    {"",                    0, 0, 0,
     "program batches(M, N)\ninput a : %s[3, M, N]\ninput b : %s[3, N, 17]\n"
     "p = a @ b\noutput y = triu(p) / (1 + max(abs(p), axis = [1, 2], keepdims = true))\n"     },
 // clang-format on
};

void compile_stitched(struct compiled *c, const struct stitched *s, const char *arch)
{
    struct size sizes[] = {
        {"M", 256},
        {"N", 128}
    };
    char *typed_text = typed(s->text, "f32");
    compile_right_text(
        c, typed_text,
        &(struct compile_options){.target = target_find(arch), .sizes = sizes, .n_sizes = 2});
    free(typed_text);
}
