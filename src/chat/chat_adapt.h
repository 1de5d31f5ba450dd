/* chat_adapt.h: bridging API messages and templates. Clients send what OpenAI's API defines;
 * templates differ in what they read. What a template can take is found once, by rendering small
 * conversations with it; then messages are rewritten as little as possible:
 *   - content parts become one string where the template reads only strings (text parts joined by
 *     line ends), and a string becomes one text part where it reads only parts;
 *   - arguments of tool calls become an object where the template wants one (and JSON text where it
 *     wants text);
 *   - reasoning_content, reasoning and thinking are offered under all three names. */
#ifndef MLXCEL_CHAT_CHAT_ADAPT_H
#define MLXCEL_CHAT_CHAT_ADAPT_H

#include "chat/chat_priv.h"

/* Fills t->caps. A template that fails is a finding; only running out of memory is an error. */
bool chat_adapt_probe(ChatTemplate *t, Err *err) MUST_CHECK;
/* *out is messages itself where nothing had to change; new nodes are made in a. */
bool chat_adapt_messages(const ChatCaps *caps, const Json *messages, Arena *a, const Json **out,
                         Err *err) MUST_CHECK;

#endif
