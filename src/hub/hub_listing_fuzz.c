/* Any bytes as the hub's listing: refused with a message, or names that are safe to write. */
#include "base/err.h"
#include "hub/hub_listing.h"
#include "hub/hub_name.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    Arena a = {.max_bytes = 64 << 20};
    HubListing l;
    Err err = {0};
    bool ok = hub_listing_parse((Str){(const char *)data, size}, &a, &l, &err);
    if (!ok && !err.msg[0]) __builtin_trap();
    for (size_t i = 0; ok && i < l.n; i++)
        if (!hub_file_check(l.files[i].path, NULL)) __builtin_trap();
    if (ok && !hub_choose(l.files, l.n, &(HubRule){0}, &a, &err) && !err.msg[0]) __builtin_trap();
    arena_deinit(&a);
    return 0;
}
