/* pack_scales.h: the packer's other half: scales, zero points and biases, at the head of tiles, in
 * the stream, or aside where rows share them (packed.h). */
#ifndef MLXCEL_BACKEND_CPU_PACK_SCALES_H
#define MLXCEL_BACKEND_CPU_PACK_SCALES_H

#include "backend/cpu/packed.h"

/* Canonical arrays of n rows, without codes; freed with the other. */
bool pack_scales_init(WRows *r, const PackedMat *m, size_t n);
void pack_scales_deinit(WRows *r);
/* The scales of one lane, of its tile or of the shared head. at: the row in r. False: a zero point
 * is outside what the bits hold. */
bool pack_lane_scales(const PackedMat *m, const WRows *r, size_t at, unsigned char *head,
                      uint32_t lanes, uint32_t lane);
/* What the matrix has once: allocates m->sides and fills them. */
bool pack_sides(const WeightSource *s, PackedMat *m, Err *err) MUST_CHECK;
bool pack_zero_refused(const PackedMat *m, const char *name, uint32_t row,
                       Err *err) MUST_CHECK; /* returns false */

#endif
