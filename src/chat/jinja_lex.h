/* jinja_lex.h: template text -> tokens, with trim_blocks, lstrip_blocks, one trailing newline
 * dropped, no line statements (what transformers sets). Line ends become \n first. The whole stream
 * is made at once; the last token is JT_EOF. */
#ifndef MLXCEL_CHAT_JINJA_LEX_H
#define MLXCEL_CHAT_JINJA_LEX_H

#include "chat/jinja_value.h"

typedef enum JTok {
    JT_EOF,
    JT_DATA,
    JT_VAR_BEGIN,
    JT_VAR_END,
    JT_BLOCK_BEGIN,
    JT_BLOCK_END,
    JT_NAME,
    JT_STRING,
    JT_INTEGER,
    JT_FLOAT,
    JT_ADD,
    JT_ASSIGN,
    JT_COLON,
    JT_COMMA,
    JT_DIV,
    JT_DOT,
    JT_EQ,
    JT_FLOORDIV,
    JT_GT,
    JT_GTEQ,
    JT_LBRACE,
    JT_LBRACKET,
    JT_LPAREN,
    JT_LT,
    JT_LTEQ,
    JT_MOD,
    JT_MUL,
    JT_NE,
    JT_PIPE,
    JT_POW,
    JT_RBRACE,
    JT_RBRACKET,
    JT_RPAREN,
    JT_SEMICOLON,
    JT_SUB,
    JT_TILDE
} JTok;

typedef struct JToken {
    JTok type;
    int line;
    Str text;   /* DATA, NAME */
    JVal value; /* STRING, INTEGER, FLOAT */
} JToken;

typedef struct JTokens {
    JToken *t;
    size_t n, cap;
} JTokens;

bool jlex_run(JRun *r, Str source, JTokens *out);
const char *jlex_describe(JTok type); /* "end of print statement", "integer", "**" */

#endif
