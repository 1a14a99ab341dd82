// templates.c: embeds templates/*.cuh in the library, so that NVRTC gets them as in-memory headers.

#include "templates/templates.h"

#define TEMPLATE(name)                                                                             \
    extern const char template_##name[];                                                           \
    __asm__(".pushsection .rodata\n"                                                               \
            "template_" #name ":\n"                                                                \
            ".incbin \"templates/" #name ".cuh\"\n"                                                \
            ".byte 0\n"                                                                            \
            ".popsection\n");
#include "templates/templates.def"
#undef TEMPLATE

const struct template templates[] = {
#define TEMPLATE(name) {#name ".cuh", template_##name},
#include "templates/templates.def"
#undef TEMPLATE
};
const int n_templates = sizeof templates / sizeof *templates;
