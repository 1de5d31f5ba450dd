/* The machine's ceilings, in mlxcel.h's terms. */
#include <stdio.h>
#include <string.h>

#include "api/api.h"
#include "backend/ceiling.h"
#include "backend/host.h"
#include "base/os.h"

static void cpu_name(char *out, size_t n) {
    FILE *f = fopen("/proc/cpuinfo", "re");
    char line[512];
    out[0] = 0;
    while (f && fgets(line, sizeof line, f)) {
        const char *colon = strchr(line, ':');
        if (!colon || strncmp(line, "model name", 10) != 0) continue;
        Str name = str_trim(str_c(colon + 1));
        snprintf(out, n, "%.*s", (int)name.n, name.p);
        break;
    }
    if (f) fclose(f);
    if (!out[0]) snprintf(out, n, "unknown");
}

bool mlxcel_machine_measure(int n_threads, const char *isa, mlxcel_machine *out,
                            mlxcel_error *error) {
    Err err = {0};
    Backend *be;
    Ceiling c;
    const BackendOptions opt = {.n_threads = n_threads, .isa = isa};
    if (!backend_open("cpu", &opt, &be, &err)) return api_fail(error, &err);
    Pool *pool = ((HostBackend *)(void *)be)->pool;
    bool ok = ceiling_measure(pool, be->api->isa(be), &c, &err);
    *out = (mlxcel_machine){.n_cpus = os_n_cpus(),
                            .n_cores = os_n_cores(),
                            .n_threads = pool_n_threads(pool),
                            .memory_available = os_memory_available_bytes()};
    snprintf(out->isa, sizeof out->isa, "%s", be->api->isa(be));
    cpu_name(out->cpu, sizeof out->cpu);
    be->api->close(be);
    if (!ok) return api_fail(error, &err);
    out->read_gbs = c.read_gbs;
    out->int8_gmacs = c.int8_gmacs;
    out->f32_gmacs = c.f32_gmacs;
    return true;
}
