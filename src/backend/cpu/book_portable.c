#include "backend/cpu/vec_portable.h"
#include "backend/cpu/book.inc.c"
