#include "backend/cpu/vec_portable.h"
#define Q_TWO_ROWS
#include "backend/cpu/float_tile.inc.c"
#include "backend/cpu/widen.inc.c"
