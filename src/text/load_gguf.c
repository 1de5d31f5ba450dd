#include "ckpt/gguf.h"
#include "text/tok_load.h"
#include "text/tokenizer_priv.h"

bool tokenizer_load_gguf(const Gguf *g, Tokenizer **out, Err *err) {
    (void)g;
    (void)out;
    return err_set(err, ERR_UNSUPPORTED, "gguf");
}
