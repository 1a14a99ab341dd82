// templates.h: the kernel templates, as text inside the library
#pragma once

struct template
{
    const char *name; // "map.cuh": what a kernel includes
    const char *text; // NUL-terminated
};
extern const struct template templates[];
extern const int n_templates;
