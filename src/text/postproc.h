/* postproc.h: what add_special puts around one text or a pair: templates, Bert, Roberta.
 * Compiled to two flat lists. */
#ifndef MLXCEL_TEXT_POSTPROC_H
#define MLXCEL_TEXT_POSTPROC_H

#include "json/json.h"
#include "text/tok_piece.h"

typedef enum PostKind { POST_A, POST_B, POST_TOKEN } PostKind;

typedef struct PostItem {
    PostKind kind;
    uint32_t id;   /* TOKEN */
    uint32_t type; /* token type id */
} PostItem;

typedef struct PostList {
    PostItem *p;
    size_t n, cap;
} PostList;

typedef struct Postproc {
    PostList single, pair;
} Postproc;

/* j is the "post_processor" value (null: none). */
bool postproc_load(Postproc *pp, const Json *j, Err *err) MUST_CHECK;
bool postproc_set(Postproc *pp, uint32_t before, uint32_t after,
                  Err *err) MUST_CHECK; /* TOK_NONE: nothing there */
void postproc_apply(const PostList *l, bool add_special, const TokIds *a, const TokIds *b,
                    TokIds *out, TokIds *types);
void postproc_deinit(Postproc *pp);

#endif
