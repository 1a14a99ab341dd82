// arch.c: the name of an architecture, or a device's own, to the target that kernels are made for.

#include "runtime/runtime.h"
#include <stdlib.h>
#include <string.h>

void target_of_arch(const char *name, struct target *out)
{
    const struct target *found = target_find(name);
    struct arch arch = {0};
    if (!found && arch_parse(name, &arch)) {
        for (int i = 0; i < n_targets; i++) // the newest that is not newer
            if (targets[i].sm <= arch.sm && (!found || targets[i].sm >= found->sm))
                found = &targets[i];
    }
    *out = found ? *found : targets[0];
    out->name = name;
    if (arch.sm)
        out->sm = arch.sm;
}

// Every arch that NVRTC has, with the suffixed ones of it that quern knows; without NVRTC, quern's
// own.
static void list_archs(const struct nvrtc *n, FILE *out)
{
    for (int i = 0; n && i < n->n_archs; i++) {
        char suffixed[32];
        snprintf(suffixed, sizeof suffixed, "sm_%da", n->archs[i]);
        if (n->archs[i] < targets[0].sm)
            continue;
        fprintf(out, " sm_%d", n->archs[i]);
        if (target_find(suffixed))
            fprintf(out, " %s", suffixed);
    }
    for (int i = 0; !n && i < n_targets; i++)
        fprintf(out, " %s", targets[i].name);
}

static quern_status report_unknown(const quern *q, const char *name, const struct nvrtc *n)
{
    char *text = NULL;
    size_t n_text;
    FILE *out = open_memstream(&text, &n_text);
    if (!out)
        return report(q, QUERN_MEMORY, "out of memory");
    list_archs(n, out);
    fclose(out);
    if (n)
        report(q, QUERN_USAGE, "unknown arch `%s`: NVRTC %d.%d compiles for%s", name, n->major,
               n->minor, text);
    else
        report(q, QUERN_USAGE, "unknown arch `%s`: quern knows%s", name, text);
    free(text);
    return QUERN_USAGE;
}

// An arch the caller names.  Without NVRTC to ask, the table of targets decides.
static bool is_supported(const struct nvrtc *n, const char *name)
{
    struct arch arch;
    if (!arch_parse(name, &arch) || arch.sm < targets[0].sm)
        return false;
    return n ? nvrtc_compiles_for(n, name) : target_find(name) != NULL;
}

// The code of the GPU's own arch where NVRTC knows it; else of an older one of the same generation,
// which it runs too; else PTX of the newest that NVRTC has, for the driver to compile.
static bool settle_native(const struct device *d, const struct nvrtc *n, char *name, size_t n_name)
{
    snprintf(name, n_name, "%s", d->target.name);
    if (!n || nvrtc_compiles_for(n, name))
        return true;
    int best = 0;
    for (int i = 0; i < n->n_archs; i++)
        if (n->archs[i] <= d->target.sm && n->archs[i] > best)
            best = n->archs[i];
    if (!best)
        return false;
    bool same_generation = best / 10 == d->target.sm / 10;
    snprintf(name, n_name, "%s_%d", same_generation ? "sm" : "compute", best);
    note(d->q, "NVRTC %d.%d does not know %s: compiling for %s%s", n->major, n->minor,
         d->target.name, name, same_generation ? "" : ", which the driver translates");
    return true;
}

// Whether a cubin of the named arch runs on the device.
static bool runs_on(const char *name, const struct device *d)
{
    struct arch arch;
    if (!strcmp(name, d->target.name))
        return true;
    return arch_parse(name, &arch) && !arch.suffix && arch.sm <= d->target.sm &&
           (arch.virtual || arch.sm / 10 == d->target.sm / 10);
}

quern_status settle_arch(quern_plan *plan, const char *name, bool no_load)
{
    quern *q = plan->q;
    const struct device *d = plan->device;
    bool native = d && d->native;
    // Source alone, and the host device, need no NVRTC and take what the table of targets has.
    const struct nvrtc *n = no_load || (d && !native) ? NULL : find_nvrtc(q);
    if (name && !is_supported(n, name))
        return report_unknown(q, name, n);
    if (name)
        snprintf(plan->arch, sizeof plan->arch, "%s", name);
    else if (!native)
        snprintf(plan->arch, sizeof plan->arch, "sm_90a");
    else if (!settle_native(d, n, plan->arch, sizeof plan->arch))
        return report(q, QUERN_MISSING, "NVRTC %d.%d has no arch that %s can run", n->major,
                      n->minor, d->name);
    if (native && !no_load && !runs_on(plan->arch, d))
        return report(q, QUERN_USAGE, "kernels for %s do not run on %s, which is %s", plan->arch,
                      d->name, d->target.name);
    if (native && !strcmp(plan->arch, d->target.name))
        plan->target = d->target;
    else
        target_of_arch(plan->arch, &plan->target);
    plan->target.name = plan->arch;
    nvrtc_options(&plan->options, plan->arch, plan->math);
    return QUERN_OK;
}
