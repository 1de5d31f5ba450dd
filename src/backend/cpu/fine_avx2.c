#if defined(__x86_64__)
#include "backend/cpu/vec_avx2.h"
#include "backend/cpu/fine.inc.c"
#endif
