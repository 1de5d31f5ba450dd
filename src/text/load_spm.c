#include "text/tok_load.h"
bool load_spm_into(Tokenizer *t, Str b, Err *err) {
    (void)t;
    (void)b;
    return err_set(err, ERR_UNSUPPORTED, "spm");
}
bool load_plamo_into(Tokenizer *t, Str b, Err *err) {
    (void)t;
    (void)b;
    return err_set(err, ERR_UNSUPPORTED, "spm");
}
bool load_tiktoken_into(Tokenizer *t, Str b, const char *p, Err *err) {
    (void)t;
    (void)b;
    (void)p;
    return err_set(err, ERR_UNSUPPORTED, "spm");
}
bool tokenizer_load_spm(Str b, Tokenizer **o, Err *err) {
    (void)o;
    (void)b;
    return err_set(err, ERR_UNSUPPORTED, "spm");
}
bool tokenizer_load_plamo(Str b, Tokenizer **o, Err *err) {
    (void)o;
    (void)b;
    return err_set(err, ERR_UNSUPPORTED, "spm");
}
bool tokenizer_load_tiktoken(Str b, const char *p, Tokenizer **o, Err *err) {
    (void)o;
    (void)b;
    (void)p;
    return err_set(err, ERR_UNSUPPORTED, "spm");
}
