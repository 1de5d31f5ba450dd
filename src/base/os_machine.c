/* The machine part of os.h: memory figures, processors, terminals. Reads /proc and the cgroup files
 * of Linux. */
#include "base/os.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <unistd.h>

/* The files of /proc and /sys have no size: read what comes, up to what fits. */
static Str read_small(const char *path, char *out, size_t cap) {
    FILE *f = fopen(path, "re");
    if (!f) return STR_NONE;
    size_t n = fread(out, 1, cap, f);
    fclose(f);
    return (Str){out, n};
}

/* "Name:   123 kB" in /proc files, in bytes; 0 if absent. */
static uint64_t proc_kib(const char *path, Str name) {
    char text[8192];
    Str rest = read_small(path, text, sizeof text), line;
    while (str_split(&rest, '\n', &line)) {
        uint64_t v;
        if (!str_starts(line, name)) continue;
        line = str_trim(str_from(line, name.n));
        if (str_to_u64(str_slice(line, 0, str_find_char(line, ' ', 0)), &v)) return v * 1024;
    }
    return 0;
}

uint64_t os_rss_bytes(void) { return proc_kib("/proc/self/status", STR("VmRSS:")); }
uint64_t os_rss_peak_bytes(void) { return proc_kib("/proc/self/status", STR("VmHWM:")); }

static bool cgroup_value(const char *v2, const char *v1, uint64_t *out) {
    char text[64];
    Str s = str_trim(read_small(v2, text, sizeof text));
    if (!s.n) s = str_trim(read_small(v1, text, sizeof text));
    return str_to_u64(s, out);
}

uint64_t os_memory_available_bytes(void) {
    uint64_t free_bytes = proc_kib("/proc/meminfo", STR("MemAvailable:")), limit, used;
    if (cgroup_value("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes",
                     &limit) &&
        cgroup_value("/sys/fs/cgroup/memory.current", "/sys/fs/cgroup/memory/memory.usage_in_bytes",
                     &used)) {
        uint64_t left = limit > used ? limit - used : 0;
        if (left < free_bytes) return left;
    }
    return free_bytes;
}

/* Processors that the cgroup's quota pays for, rounded up; 0 = no quota. */
static int quota_cpus(void) {
    char text[128];
    Str s = str_trim(read_small("/sys/fs/cgroup/cpu.max", text, sizeof text)), part;
    uint64_t quota = 0, period = 0;
    if (s.n) {
        if (!str_split(&s, ' ', &part) || !str_to_u64(part, &quota) || !str_to_u64(s, &period))
            return 0;
    } else {
        cgroup_value("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "/dev/null", &quota);
        cgroup_value("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "/dev/null", &period);
    }
    return quota && period ? (int)((quota + period - 1) / period) : 0;
}

int os_n_cpus(void) {
    cpu_set_t set;
    int n = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set)
                                                        : (int)sysconf(_SC_NPROCESSORS_ONLN);
    int quota = quota_cpus();
    if (quota > 0 && quota < n) n = quota;
    return n < 1 ? 1 : n;
}

/* Usable processors that are the first of their core's siblings. */
int os_n_cores(void) {
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) != 0) return os_n_cpus();
    int n = 0;
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET(cpu, &set)) continue;
        char path[96], text[64];
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list",
                 cpu);
        Str s = str_trim(read_small(path, text, sizeof text));
        size_t end = 0;
        while (end < s.n && s.p[end] >= '0' && s.p[end] <= '9') end++;
        uint64_t first;
        bool known = str_to_u64(str_slice(s, 0, end), &first);
        /* A sibling outside our mask does not count. */
        if (!known || first == (uint64_t)cpu || first >= CPU_SETSIZE ||
            !CPU_ISSET((int)first, &set))
            n++;
    }
    int cpus = os_n_cpus();
    return n < 1 ? 1 : n > cpus ? cpus : n;
}

int os_terminal_columns(int fd) {
    struct winsize w;
    return ioctl(fd, TIOCGWINSZ, &w) == 0 && w.ws_col > 0 ? w.ws_col : 80;
}
