// prelude.c: embeds prelude.qn, the functions that are said in the language itself.

#include "gen/gen.h"

__asm__(".pushsection .rodata\n"
        ".global prelude_text\n"
        ".hidden prelude_text\n"
        "prelude_text:\n"
        ".incbin \"gen/prelude.qn\"\n"
        ".byte 0\n"
        ".popsection\n");
