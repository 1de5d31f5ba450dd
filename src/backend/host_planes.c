/* Cache planes and recurrent state of host backends: who allocates, copies, saves. */
#include <string.h>

#include "backend/host.h"
#include "base/mem.h"

static size_t plane_bytes(const HostBackend *be, const ProgPlane *p, PlaneType k, PlaneType v) {
    return be->ops->plane_page_bytes(p, p->use == PLANE_VALUE ? v : k);
}

uint64_t host_page_bytes(const Backend *be, const Program *p, uint32_t group, PlaneType k,
                         PlaneType v) {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < p->n_planes; i++)
        if (p->planes[i].group == group)
            sum += plane_bytes((const HostBackend *)be, &p->planes[i], k, v);
    return sum;
}

/* Blocks of state begin on 64-byte lines. */
static size_t state_stride(const ProgState *s) { return ((size_t)s->floats + 15) / 16 * 16; }

uint64_t host_state_bytes(const Backend *be, const Program *p) {
    (void)be;
    uint64_t sum = 0;
    for (uint32_t i = 0; i < p->n_states; i++) sum += state_stride(&p->states[i]) * sizeof(float);
    return sum;
}

static bool planes_alloc(const HostBackend *be, const Program *p, const PlanesAsk *ask,
                         BackPlanes *pl) {
    pl->page_bytes = mem_calloc(p->n_planes + 1, sizeof *pl->page_bytes);
    pl->memory = mem_calloc(p->n_planes + 1, sizeof *pl->memory);
    pl->memory_bytes = mem_calloc(p->n_planes + 1, sizeof *pl->memory_bytes);
    if (!pl->page_bytes || !pl->memory || !pl->memory_bytes) return false;
    for (uint32_t i = 0; i < p->n_planes; i++) {
        uint32_t n_pages = ask->n_pages[p->planes[i].group];
        pl->page_bytes[i] = plane_bytes(be, &p->planes[i], ask->k, ask->v);
        if (!size_mul(pl->page_bytes[i], n_pages ? n_pages : 1, &pl->memory_bytes[i]) ||
            !(pl->memory[i] = mem_alloc_pages(pl->memory_bytes[i])))
            return false;
    }
    return true;
}

static size_t state_memory(const BackPlanes *pl) {
    return pl->state_floats * pl->n_states * sizeof(float);
}

static bool states_alloc(const Program *p, BackPlanes *pl) {
    pl->state_offset = mem_calloc(p->n_states + 1, sizeof *pl->state_offset);
    if (!pl->state_offset) return false;
    for (uint32_t i = 0; i < p->n_states; i++) {
        pl->state_offset[i] = pl->state_floats;
        pl->state_floats += state_stride(&p->states[i]);
    }
    size_t bytes;
    if (!size_mul(pl->state_floats * sizeof(float), pl->n_states, &bytes)) return false;
    return !bytes || (pl->states = mem_alloc_pages(bytes)) != NULL;
}

bool host_planes_new(Backend *be, const Program *p, const PlanesAsk *ask, BackPlanes **out,
                     Err *err) {
    BackPlanes *pl = mem_calloc(1, sizeof *pl);
    if (!pl) return err_nomem(err, "cache planes");
    pl->planes = p->planes;
    pl->n_planes = p->n_planes;
    pl->n_groups = p->n_groups;
    memcpy(pl->n_pages, ask->n_pages, sizeof pl->n_pages);
    pl->n_states = ask->n_states;
    pl->type[0] = ask->k;
    pl->type[1] = ask->v;
    if (!planes_alloc((const HostBackend *)be, p, ask, pl) || !states_alloc(p, pl)) {
        host_planes_free(be, pl);
        return err_nomem(err, "cache planes");
    }
    *out = pl;
    return true;
}

void host_planes_free(Backend *be, BackPlanes *pl) {
    (void)be;
    if (!pl) return;
    for (uint32_t i = 0; pl->memory && i < pl->n_planes; i++)
        if (pl->memory[i]) mem_free_pages(pl->memory[i], pl->memory_bytes[i]);
    if (pl->states) mem_free_pages(pl->states, state_memory(pl));
    mem_free(pl->page_bytes);
    mem_free(pl->memory);
    mem_free(pl->memory_bytes);
    mem_free(pl->state_offset);
    mem_free(pl);
}

void host_page_copy(BackPlanes *pl, uint32_t group, uint32_t to, uint32_t from) {
    for (uint32_t i = 0; i < pl->n_planes; i++)
        if (pl->planes[i].group == group)
            memcpy(host_page(pl, (PlaneId)i, to), host_page(pl, (PlaneId)i, from),
                   pl->page_bytes[i]);
}

void host_state_copy(BackPlanes *pl, uint32_t to, uint32_t from) {
    if (to != from)
        memcpy(pl->states + to * pl->state_floats, pl->states + from * pl->state_floats,
               pl->state_floats * sizeof(float));
}

static bool page_known(const BackPlanes *pl, uint32_t group, uint32_t page, Err *err) {
    if (group < pl->n_groups && page < pl->n_pages[group]) return true;
    return err_set(err, ERR_INTERNAL, "cache page %u of group %u", page, group);
}

bool host_page_read(BackPlanes *pl, uint32_t group, uint32_t page, void *out, Err *err) {
    if (!page_known(pl, group, page, err)) return false;
    char *p = out;
    for (uint32_t i = 0; i < pl->n_planes; i++) {
        if (pl->planes[i].group != group) continue;
        memcpy(p, host_page(pl, (PlaneId)i, page), pl->page_bytes[i]);
        p += pl->page_bytes[i];
    }
    return true;
}

bool host_page_write(BackPlanes *pl, uint32_t group, uint32_t page, const void *in, Err *err) {
    if (!page_known(pl, group, page, err)) return false;
    const char *p = in;
    for (uint32_t i = 0; i < pl->n_planes; i++) {
        if (pl->planes[i].group != group) continue;
        memcpy(host_page(pl, (PlaneId)i, page), p, pl->page_bytes[i]);
        p += pl->page_bytes[i];
    }
    return true;
}

static bool state_known(const BackPlanes *pl, uint32_t slot, Err *err) {
    return slot < pl->n_states || err_set(err, ERR_INTERNAL, "state %u of %u", slot, pl->n_states);
}

bool host_state_read(BackPlanes *pl, uint32_t slot, void *out, Err *err) {
    if (!state_known(pl, slot, err)) return false;
    memcpy(out, pl->states + slot * pl->state_floats, pl->state_floats * sizeof(float));
    return true;
}

bool host_state_write(BackPlanes *pl, uint32_t slot, const void *in, Err *err) {
    if (!state_known(pl, slot, err)) return false;
    memcpy(pl->states + slot * pl->state_floats, in, pl->state_floats * sizeof(float));
    return true;
}
