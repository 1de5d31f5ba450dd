#if defined(__x86_64__)
#include "backend/cpu/vec_avx512.h"
#define Q_ALL_ROWS
#include "backend/cpu/fine.inc.c"
#endif
