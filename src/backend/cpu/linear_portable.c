#include "backend/cpu/vec_portable.h"
#include "backend/cpu/linear.inc.c"
