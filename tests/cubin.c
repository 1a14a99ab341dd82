// cubin.c: a cubin, an ELF file, to the figures of one of its kernels, without any of NVIDIA's
// tools.

#include "tests/cubin.h"
#include <elf.h>
#include <string.h>

// Of .nv.info: a format, an attribute, the size of what follows.
enum { FORMAT_sized = 4, INFO_registers = 0x2f, INFO_frame = 0x11 };

struct file {
    const unsigned char *bytes;
    size_t n_bytes;
    const Elf64_Ehdr *header;
    const Elf64_Shdr *sections;
    const char *names;
};

static bool lies_inside(const struct file *f, const Elf64_Shdr *s)
{
    return s->sh_type == SHT_NOBITS ||
           (s->sh_offset <= f->n_bytes && s->sh_size <= f->n_bytes - s->sh_offset);
}

static bool open_file(struct file *f, const void *bytes, size_t n_bytes)
{
    *f = (struct file){.bytes = bytes, .n_bytes = n_bytes, .header = bytes};
    if (n_bytes < sizeof *f->header || memcmp(bytes, ELFMAG, SELFMAG) ||
        f->header->e_shoff > n_bytes ||
        f->header->e_shnum > (n_bytes - f->header->e_shoff) / sizeof *f->sections)
        return false;
    f->sections = (const void *)(f->bytes + f->header->e_shoff);
    for (int i = 0; i < f->header->e_shnum; i++)
        if (!lies_inside(f, &f->sections[i]))
            return false;
    f->names = (const char *)f->bytes + f->sections[f->header->e_shstrndx].sh_offset;
    return true;
}

// The section PREFIX or PREFIXNAME.
static const Elf64_Shdr *section(const struct file *f, const char *prefix, const char *name)
{
    size_t n = strlen(prefix);
    for (int i = 0; i < f->header->e_shnum; i++) {
        const char *is = f->names + f->sections[i].sh_name;
        if (!strncmp(is, prefix, n) && !strcmp(is + n, name))
            return &f->sections[i];
    }
    return NULL;
}

// The figures of the kernel, by its number in the table of symbols: the largest, since a function
// that it calls has a frame too.
static void read_info(const struct file *f, const Elf64_Shdr *info, struct cubin *out)
{
    for (size_t at = 0; at + 4 <= info->sh_size;) {
        const unsigned char *p = f->bytes + info->sh_offset + at;
        int size = p[0] == FORMAT_sized ? p[2] | p[3] << 8 : 0, value[2] = {0};
        if (size == sizeof value && at + 4 + sizeof value <= info->sh_size)
            memcpy(value, p + 4, sizeof value);
        if (p[1] == INFO_registers && value[1] > out->registers)
            out->registers = value[1];
        if (p[1] == INFO_frame && value[1] > out->frame_bytes)
            out->frame_bytes = value[1];
        at += 4 + (size_t)size;
    }
}

bool cubin_read(const void *bytes, size_t n_bytes, const char *kernel, struct cubin *out)
{
    struct file f;
    *out = (struct cubin){0};
    if (!open_file(&f, bytes, n_bytes))
        return false;
    const Elf64_Shdr *text = section(&f, ".text.", kernel), *info = section(&f, ".nv.info", "");
    const Elf64_Shdr *shared = section(&f, ".nv.shared.", kernel);
    if (!text || !info)
        return false;
    out->text = f.bytes + text->sh_offset;
    out->n_instructions = text->sh_size / 16;
    out->shared_bytes = shared ? shared->sh_size : 0;
    read_info(&f, info, out);
    return true;
}

static uint64_t word(const struct cubin *c, size_t instruction, int half)
{
    uint64_t bits;
    memcpy(&bits, c->text + 16 * instruction + 8 * half, sizeof bits);
    return bits;
}

int cubin_count(const struct cubin *c, unsigned opcode)
{
    int n = 0;
    for (size_t i = 0; i < c->n_instructions; i++)
        n += (word(c, i, 0) & 0x1ff) == opcode;
    return n;
}

int cubin_count_wide(const struct cubin *c, unsigned opcode, unsigned width)
{
    int n = 0;
    for (size_t i = 0; i < c->n_instructions; i++)
        n += (word(c, i, 0) & 0x1ff) == opcode && (word(c, i, 1) >> 9 & 7) == width;
    return n;
}
