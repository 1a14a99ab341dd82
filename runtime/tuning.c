// tuning.c: what a tuning found, to its caller.

#include "runtime/tune.h"
#include <stdlib.h>

void quern_destroy_tuning(quern_tuning *tuning)
{
    if (!tuning)
        return;
    for (int i = 0; i < tuning->n_kernels; i++) {
        for (int j = 0; j < tuning->kernels[i].n_tried; j++)
            free(tuning->kernels[i].tried[j].why);
        free(tuning->kernels[i].tried);
    }
    free(tuning->kernels);
    free(tuning->touched);
    quern_destroy_plan(tuning->base);
    free(tuning);
}

const char *quern_outcome_name(quern_outcome outcome)
{
    static const char *const names[] = {[QUERN_UNTRIED] = "untried",
                                        [QUERN_TIMED] = "timed",
                                        [QUERN_CHOSEN] = "chosen",
                                        [QUERN_WRONG] = "wrong",
                                        [QUERN_FAILED] = "failed"};
    return (unsigned)outcome <= QUERN_FAILED ? names[outcome] : "unknown";
}

int quern_tuning_n_candidates(const quern_tuning *tuning)
{
    int n = 0;
    for (int i = 0; tuning && i < tuning->n_kernels; i++)
        n += tuning->kernels[i].n_tried;
    return n;
}

quern_status quern_tuning_candidate(const quern_tuning *tuning, int i, quern_candidate *out)
{
    if (!tuning || !out || i < 0 || i >= quern_tuning_n_candidates(tuning))
        return report(tuning ? tuning->q : NULL, QUERN_USAGE,
                      "quern_tuning_candidate: there is no candidate %d", i);
    const struct tuned_kernel *k = tuning->kernels;
    while (i >= k->n_tried)
        i -= k++->n_tried;
    const struct tried *one = &k->tried[i];
    *out = (quern_candidate){.kernel = k->kernel->name,
                             .spec = one->candidate->spec,
                             .predicted_us = one->candidate->predicted_us,
                             .median_us = one->median_us,
                             .n_samples = one->n_samples,
                             .samples_us = one->us,
                             .outcome = one->outcome,
                             .why = one->why};
    return QUERN_OK;
}

quern_status quern_tuning_result(const quern_tuning *tuning, quern_tuned *out)
{
    if (!tuning || !out)
        return report(tuning ? tuning->q : NULL, QUERN_USAGE,
                      "quern_tuning_result: a null argument");
    *out = (quern_tuned){.arch = tuning->base->target.name,
                         .default_us = tuning->default_us,
                         .tuned_us = tuning->tuned_us,
                         .seconds = tuning->seconds,
                         .kept = tuning->kept};
    for (int i = 0; i < tuning->n_kernels; i++)
        for (int j = 0; j < tuning->kernels[i].n_tried; j++)
            out->n_untried += tuning->kernels[i].tried[j].outcome == QUERN_UNTRIED;
    return QUERN_OK;
}
