/* reasoning.h: how a model marks its thinking. A kind is a small table of marks; the reply
 * splitter (reply.h) looks for them in the running text and needs nothing else. Channel formats
 * (harmony, atem, kimi_k3) route whole messages by their headers, so their kind has no marks of
 * its own.
 *
 *     const Reasoning *k = reasoning_find(STR("think"));
 *     if (reasoning_opened_by(k, prompt_tail)) ... the template already wrote the opening mark */
#ifndef MLXCEL_CHAT_REASONING_H
#define MLXCEL_CHAT_REASONING_H

#include "base/str.h"

typedef enum MarkAct {
    MARK_OPEN,  /* thinking begins */
    MARK_CLOSE, /* thinking ends */
    /* Thinking ends although its mark was forgotten; what follows is read again as content. */
    MARK_CLOSE_CALL,
    MARK_STRIP, /* wrapper of the answer: dropped */
    MARK_CALL,  /* a tool call section (toolcall.h) begins; just text in requests without tools */
    MARK_ROUTE  /* the header or end of a message of a channel format: the same, tools or not */
} MarkAct;

/* Where a mark counts. */
enum {
    MARK_AT_START = 1,   /* before anything else of the reply (white space may precede) */
    MARK_IN_CONTENT = 2, /* anywhere in the answer */
    MARK_IN_REASONING = 4
};

typedef struct Mark {
    Str text;
    unsigned char act;   /* MarkAct */
    unsigned char where; /* MARK_ bits */
    unsigned char state; /* MARK_CALL, MARK_ROUTE: the state in which the format's machine begins */
} Mark;

typedef struct Reasoning {
    Str name;
    Str close; /* what a model would write to end its thinking and begin the answer */
    const Mark *marks;
    size_t n_marks;
} Reasoning;

const Reasoning *reasoning_find(Str name); /* NULL if there is none of that name */
const Reasoning *reasoning_at(size_t i);   /* NULL past the end: for help texts */
/* The prompt ends with one of the kind's opening marks (white space aside): the reply begins
 * inside the thinking. */
bool reasoning_opened_by(const Reasoning *kind, Str prompt_tail);

#endif
