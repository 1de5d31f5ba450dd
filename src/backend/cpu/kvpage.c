#include "backend/cpu/kvpage.h"

#include "backend/cpu/cpu_ops.h"

size_t cpu_plane_page_bytes(const ProgPlane *plane, PlaneType type) {
    return plane->heads * kv_shape(plane->use, type, plane->head_cols).head_bytes;
}
