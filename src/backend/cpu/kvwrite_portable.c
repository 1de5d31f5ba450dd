#include "backend/cpu/vec_portable.h"
#include "backend/cpu/kvwrite.inc.c"
