/* repl_talk.h: a conversation as messages: what a REPL keeps, saves and loads. */
#ifndef MLXCEL_CLI_REPL_TALK_H
#define MLXCEL_CLI_REPL_TALK_H

#include "base/arena.h"
#include "base/buf.h"

typedef enum TalkRole { TALK_USER, TALK_ASSISTANT } TalkRole;

typedef struct TalkMessage {
    TalkRole role;
    Buf content, reasoning;
} TalkMessage;

typedef struct Talk {
    Buf system; /* empty: none */
    TalkMessage *messages;
    size_t n, cap;
} Talk;

bool talk_add(Talk *t, TalkRole role, Str content, Str reasoning, Err *err) MUST_CHECK;
void talk_drop_last(Talk *t);
void talk_clear(Talk *t); /* the system message stays */
void talk_deinit(Talk *t);
void talk_json(const Talk *t, Buf *out); /* an array of chat messages */
bool talk_save(const Talk *t, const char *path, Err *err) MUST_CHECK;
bool talk_load(Talk *t, const char *path, Err *err) MUST_CHECK; /* replaces all */

#endif
