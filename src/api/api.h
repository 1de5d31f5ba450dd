/* api.h: what is behind the opaque types of mlxcel.h, shared by the files of api/. */
#ifndef MLXCEL_API_API_H
#define MLXCEL_API_API_H

#include "chat/chat.h"
#include "engine/engine.h"
#include "json/json_writer.h"
#include "mlxcel.h"
#include "sample/grammar/grammar.h"

struct mlxcel_model {
    Model *m;
    char *chat_template; /* the caller's, instead of the checkpoint's; NULL */
    /* Made when first asked for, by whichever thread comes first. */
    _Atomic(ChatTemplate *) chat;
    _Atomic(GrammarVocab *) vocab;
};

struct mlxcel_engine {
    Engine *e;
    mlxcel_model *model;
};

struct mlxcel_string {
    Buf buf;
};

/* Err and mlxcel_error say the same in two languages. */
bool api_fail(mlxcel_error *out, const Err *err); /* copies; false */
/* Moves a Buf into a new mlxcel_string. Frees the Buf on failure. */
bool api_string(Buf *from, mlxcel_string **out, mlxcel_error *err);
bool api_text(Str text, mlxcel_string **out, mlxcel_error *err); /* a copy */
/* The template of a model: of a directory or a .gguf file, or the override (empty: none). tok: for
 * the special tokens of a GGUF; may be NULL. */
bool api_template_open(const char *path, const Checkpoint *ck, const Tokenizer *tok, Str override,
                       ChatTemplate **out, Err *err) MUST_CHECK;
bool api_model_chat(const mlxcel_model *model, const ChatTemplate **out, Err *err) MUST_CHECK;
bool api_model_vocab(const mlxcel_model *model, const GrammarVocab **out, Err *err) MUST_CHECK;
/* kind: "gbnf", "json_schema", "regex", "json_object". */
bool api_grammar_compile(const char *kind, Str source, Grammar **out, Err *err) MUST_CHECK;
/* The constraint of one request, written into p; freed after the job. */
typedef struct ApiGrammar ApiGrammar;
bool api_grammar_new(const mlxcel_model *model, const char *kind, Str source, JobParams *p,
                     ApiGrammar **out, Err *err) MUST_CHECK;
void api_grammar_free(ApiGrammar *g);
/* a row of a tensor table; files may be NULL */
void api_put_tensor(JsonWriter *w, const CkptTensor *t, const Str *files);
/* EngineOptions of the public ones (NULL: defaults). */
bool api_engine_options(const mlxcel_engine_options *from, EngineOptions *to, Err *err) MUST_CHECK;

#endif
