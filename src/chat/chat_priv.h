/* chat_priv.h: what the files of chat.h share. */
#ifndef MLXCEL_CHAT_CHAT_PRIV_H
#define MLXCEL_CHAT_CHAT_PRIV_H

#include "chat/chat.h"

typedef struct ChatEntry {
    Str name;
    Jinja *jinja;
} ChatEntry;

struct ChatTemplate {
    Arena arena;
    ChatEntry *entries;
    size_t n_entries;
    JinjaVar *tokens; /* trusted variables */
    size_t n_tokens;
    bool fallback;
    ChatCaps caps;
};

enum { CHAT_MAX_TEMPLATES = 64, CHAT_MAX_TOKENS = 256 };

extern const Str chat_roles[];
extern const size_t chat_n_roles;

const ChatEntry *chat_entry_find(const ChatTemplate *t, Str name); /* NULL if absent */
bool chat_render_vars(const ChatTemplate *t, const ChatEntry *entry, const ChatRequest *req,
                      const Json *messages, JinjaOutput *out, Err *err) MUST_CHECK;

#endif
