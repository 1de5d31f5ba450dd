#include "backend/cpu/vec_portable.h"
#define Q_TWO_ROWS
#include "backend/cpu/fine.inc.c"
