/* jinja_time.h: the clock that templates see, and strftime in English. */
#ifndef MLXCEL_CHAT_JINJA_TIME_H
#define MLXCEL_CHAT_JINJA_TIME_H

#include "chat/jinja_str.h"

typedef struct JTime {    /* local time, without a zone */
    int year, month, day; /* month and day from 1 */
    int hour, minute, second, microsecond;
} JTime;

bool jtime_parse(
    Str iso, JTime *out); /* 2026-01-02, 2026-01-02T03:04:05, with fraction; false if not a time */
JTime jtime_now(void);
bool jtime_format(JRun *r, const JTime *t, const JStr *format, JVal *out);

#endif
