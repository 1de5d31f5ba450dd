/* jinja_method.h: methods and properties of the values: what Python's str, list, dict, ... have and
 * the sandbox allows. */
#ifndef MLXCEL_CHAT_JINJA_METHOD_H
#define MLXCEL_CHAT_JINJA_METHOD_H

#include "chat/jinja_eval.h"

struct JMethod {
    JVal self;
    const JBuiltin *spec;
};

extern const JBuiltinTable jmethods_str_shape, jmethods_str_find, jmethods_str_split,
    jmethods_str_is; /* of str */
extern const JBuiltinTable jmethods_list, jmethods_tuple, jmethods_dict, jmethods_bytes,
    jmethods_int, jmethods_float, jmethods_range, jmethods_view, jmethods_loop, jmethods_cycler,
    jmethods_dict_type;

const JBuiltin *jmethod_find(const JBuiltinTable *t, Str name);
bool jmethod_bind(JRun *r, JVal self, const JBuiltin *spec, JVal *out);

#endif
