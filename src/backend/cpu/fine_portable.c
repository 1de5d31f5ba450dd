#include "backend/cpu/vec_portable.h"
#include "backend/cpu/fine.inc.c"
