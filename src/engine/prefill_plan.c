#include "engine/prefill_plan.h"

uint32_t prefill_next(uint32_t done, uint32_t n, uint32_t budget, const PrefillSpan *spans,
                      size_t n_spans) {
    uint32_t end = n - done < budget ? n : done + budget;
    for (size_t i = 0; i < n_spans; i++) {
        if (spans[i].to <= done || spans[i].from >= end || spans[i].to <= end) continue;
        /* The cut would fall inside this span: stop before it, or take all of it when it is
         * next. */
        end = spans[i].from > done ? spans[i].from : spans[i].to;
        break;
    }
    return end - done;
}
