#include "backend/cpu/vec_portable.h"
#include "backend/cpu/elem.inc.c"
