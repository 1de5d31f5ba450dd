/* stop.h: stop strings in a stream of text. Whatever the cuts between pieces (tokens, halves of
 * code points), the result is that of scanning the whole text byte by byte: the first stop string
 * to be complete ends it, the longest if several end together, and none of its bytes is ever
 * emitted. Only bytes that may still become a stop string are held back.
 *
 * The set is an Aho-Corasick automaton (1975), built once per request and shared by its choices; a
 * scan is one number, because the bytes held back are the path from the root to its node.
 *
 *     StopScan scan = {0};
 *     if (stop_feed(&set, &scan, piece, &out, &matched)) ... finished; out got what came before the
 * stop string stop_flush(&set, &scan, &out);      at any other end: what was held back comes out */
#ifndef MLXCEL_STREAM_STOP_H
#define MLXCEL_STREAM_STOP_H

#include "base/buf.h"

enum { STOP_STRINGS_MAX = 256, STOP_BYTES_MAX = 4096 }; /* of a set; of one string */

typedef struct StopNode {
    uint32_t child, sibling; /* first child, next child of the same parent; 0: none */
    uint32_t fail;           /* the longest proper suffix of this path that is a path too */
    uint32_t depth;          /* bytes from the root */
    uint32_t pattern;        /* a string this path begins */
    uint32_t ends;           /* 1 + the longest string that is a suffix of this path; 0: none */
    unsigned char byte;
} StopNode;

typedef struct StopSet {
    StopNode *node; /* node 0 is the root */
    size_t n_nodes;
    Buf text;     /* the strings, one after the other */
    size_t *from; /* [n + 1] where each starts */
    size_t n;
} StopSet;

typedef struct StopScan {
    uint32_t node;
} StopScan;

/* Strings are valid UTF-8, 1 to STOP_BYTES_MAX bytes each. n may be 0: nothing is held back. */
bool stop_init(StopSet *set, const Str *strings, size_t n, Err *err) MUST_CHECK;
void stop_deinit(StopSet *set);

/* Appends to out what is safe to show. True if a stop string is complete: *matched is it (lives as
 * long as the set), and the rest of piece is dropped. Check out with buf_check. */
bool stop_feed(const StopSet *set, StopScan *scan, Str piece, Buf *out, Str *matched);
void stop_flush(const StopSet *set, StopScan *scan, Buf *out);
size_t stop_held(const StopSet *set, const StopScan *scan); /* bytes held back */

#endif
