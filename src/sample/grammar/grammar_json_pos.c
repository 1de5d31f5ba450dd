/* Positions within JSON values: goals, strings of bounded length, objects with their members in any
 * order, arrays.
 *
 *   object   { _ }   { _ "key" _ : _ value _ , _ "key" ...     _ is a run of blanks (the space lexer, may be empty)
 *   array    [ _ ]   [ _ value _ , _ value ...
 *
 * An object state is {form, members so far, set of names used}; an array state {form, index,
 * matches counted}. A member or element is only begun when the rest can still be completed, so no
 * position is a dead end. */
#include <string.h>

#include "base/mem.h"
#include "sample/grammar/grammar_machine.h"

/* Odd phases follow the blanks that the even ones begin. */
enum { OBJ_OPEN, OBJ_FIRST_WS, OBJ_FIRST, OBJ_AFTER_WS, OBJ_AFTER, OBJ_NEXT_WS, OBJ_NEXT };
enum { MEMBER_COLON_WS, MEMBER_COLON, MEMBER_VALUE_WS, MEMBER_VALUE };
enum { ARR_OPEN, ARR_FIRST_WS, ARR_FIRST, ARR_AFTER_WS, ARR_AFTER, ARR_NEXT_WS, ARR_NEXT };

static uint32_t pos3(Machine *m, PosKind kind, uint32_t a, uint32_t b, uint32_t c) {
    return machine_intern_pos(m, (Pos){.kind = kind, .a = a, .b = b, .c = c});
}

/* ---- object states ---- */

static const uint32_t *object_words(const Machine *m, uint32_t o) {
    return table_key(&m->objects, o);
}
static const IrObject *object_form(const Machine *m, uint32_t o) {
    return &m->ir->objects[object_words(m, o)[0]];
}

static uint32_t object_start(Machine *m, uint32_t form) {
    const IrObject *f = &m->ir->objects[form];
    uint32_t small[8] = {form}, *key = small, n = 2 + f->n_words;
    bool fresh;
    if (n > 8 && !(key = mem_calloc(n, sizeof *key))) return machine_fail(m, ERR_NOMEM), 0;
    key[0] = form;
    uint32_t o = table_intern(&m->objects, key, n, &fresh);
    if (key != small) mem_free(key);
    return o == TABLE_NONE ? (machine_fail(m, ERR_NOMEM), 0) : o;
}

/* The state after one more member of the class; counts stop where they stop mattering. */
static uint32_t object_with(Machine *m, uint32_t o, uint32_t class) {
    const IrObject *f = object_form(m, o);
    uint32_t small[8], *key = small, n = 2 + f->n_words;
    bool fresh;
    if (n > 8 && !(key = mem_alloc(n * sizeof *key))) return machine_fail(m, ERR_NOMEM), 0;
    memcpy(key, object_words(m, o), n * sizeof *key);
    uint32_t top = f->max == IR_UNBOUNDED ? f->min : f->max;
    if (key[1] < top) key[1]++;
    uint32_t bit = f->classes[class].named;
    if (bit != IR_NONE) key[2 + bit / 32] |= 1u << bit % 32;
    uint32_t with = table_intern(&m->objects, key, n, &fresh);
    if (key != small) mem_free(key);
    return with == TABLE_NONE ? (machine_fail(m, ERR_NOMEM), 0) : with;
}

static uint32_t required_open(const IrObject *f, const uint32_t *used) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < f->n_words; i++)
        n += (uint32_t)__builtin_popcount(f->required[i] & ~used[i]);
    return n;
}

static bool object_may_close(const Machine *m, uint32_t o) {
    const uint32_t *w = object_words(m, o);
    const IrObject *f = object_form(m, o);
    return w[1] >= f->min && !required_open(f, w + 2);
}

/* The names that may come next: unused ones, only required ones when room for others is gone.
 * regions: free names too. */
static bool object_choices(const Machine *m, uint32_t o, uint32_t *unused, bool *regions) {
    const uint32_t *w = object_words(m, o);
    const IrObject *f = object_form(m, o);
    uint32_t open = required_open(f, w + 2);
    *regions = false;
    if (f->max != IR_UNBOUNDED && w[1] >= f->max) return false;
    bool tight = f->max != IR_UNBOUNDED && f->max - w[1] <= open;
    bool any = false;
    for (uint32_t i = 0; i < f->n_words; i++) {
        unused[i] = ~w[2 + i] & f->usable[i] & (tight ? f->required[i] : UINT32_MAX);
        any |= unused[i] != 0;
    }
    *regions = f->has_region && !tight;
    return any || *regions;
}

enum { NAME_WORDS = 128 }; /* the compiler limits n_named to 32 times this */

/* Whether the key position can still become a usable name; tail: only free names are left, whatever
 * was used. */
static bool key_alive(const Machine *m, uint32_t o, const Pos *lex, bool *tail) {
    uint32_t unused[NAME_WORDS], all[NAME_WORDS];
    bool regions;
    const IrObject *f = object_form(m, o);
    object_choices(m, o, unused, &regions);
    for (uint32_t i = 0; i < f->n_words; i++) all[i] = UINT32_MAX;
    *tail = regions && !lex_alive(m, lex, f->no_region, f->reach, f->n_words, all);
    if (*tail) return true;
    return lex_alive(m, lex, regions ? f->reach_region : f->no_region, f->reach, f->n_words,
                     unused);
}

bool json_key_free(const Machine *m, uint32_t o) {
    uint32_t unused[NAME_WORDS];
    bool regions;
    object_choices(m, o, unused, &regions);
    return regions;
}

uint32_t json_key_return(Machine *m, uint32_t o, uint32_t label) {
    uint32_t goal = object_form(m, o)->classes[label].goal;
    uint32_t with = object_with(m, o, label);
    return pos3(m, POS_MEMBER, MEMBER_COLON_WS, with, goal);
}

static uint32_t key_start(Machine *m, uint32_t o) {
    uint32_t unused[NAME_WORDS];
    bool regions;
    if (!object_choices(m, o, unused, &regions)) return 0;
    uint32_t lexer = object_form(m, o)->key_lexer;
    uint32_t lex = machine_intern_pos(
        m, (Pos){POS_LEX, lexer, SUB_CHAR << 8, m->ir->lexers[lexer].dfa->start, 0, 0});
    return pos3(m, POS_KEY, o, lex, 0);
}

static uint32_t key_step(Machine *m, Pos p, uint8_t byte) {
    uint32_t lex = lex_step(m, p.b, byte);
    if (!lex) return 0;
    Pos to = machine_pos(m, lex);
    bool tail;
    if (to.b >> 8 != SUB_END)
        return key_alive(m, p.a, &to, &tail) ? pos3(m, POS_KEY, p.a, lex, 0) : 0;
    uint32_t unused[NAME_WORDS];
    bool regions;
    object_choices(m, p.a, unused, &regions);
    uint32_t bit = object_form(m, p.a)->classes[to.c].named;
    bool ok = bit == IR_NONE ? regions : unused[bit / 32] >> bit % 32 & 1;
    return ok ? json_key_return(m, p.a, to.c) : 0;
}

static uint32_t object_step(Machine *m, Pos p, uint8_t byte) {
    switch (p.a) {
    case OBJ_OPEN:
        return byte == '{' ? pos3(m, POS_OBJECT, OBJ_FIRST_WS, object_start(m, p.b), 0) : 0;
    case OBJ_FIRST:
    case OBJ_NEXT:
        if (byte == '"') return key_start(m, p.b);
        return byte == '}' && p.a == OBJ_FIRST && object_may_close(m, p.b) ? m->done_pos : 0;
    case OBJ_AFTER: {
        uint32_t unused[NAME_WORDS];
        bool regions;
        if (byte == '}') return object_may_close(m, p.b) ? m->done_pos : 0;
        return byte == ',' && object_choices(m, p.b, unused, &regions)
                   ? pos3(m, POS_OBJECT, OBJ_NEXT_WS, p.b, 0)
                   : 0;
    }
    default:
        return 0;
    }
}

/* ---- arrays ---- */

static const IrArray *array_form(const Machine *m, uint32_t a, IrArrayState *s) {
    const uint32_t *key = table_key(&m->arrays, a);
    memcpy(s, key + 1, sizeof *s);
    return &m->ir->arrays[key[0]];
}

static uint32_t array_intern(Machine *m, uint32_t form, const IrArrayState *s) {
    uint32_t key[1 + sizeof *s / sizeof(uint32_t)] = {form};
    memcpy(key + 1, s, sizeof *s);
    bool fresh;
    uint32_t a = table_intern(&m->arrays, key, sizeof key / sizeof key[0], &fresh);
    return a == TABLE_NONE ? (machine_fail(m, ERR_NOMEM), 0) : a;
}

static bool array_may_grow(const IrArray *f, const IrArrayState *s) {
    IrArrayState next;
    for (uint32_t choice = 0; choice < 1u << f->n_contains; choice++)
        if (ir_array_advance(f, s, choice, &next) && ir_array_can_finish(f, &next)) return true;
    return false;
}

static uint32_t array_step(Machine *m, Pos p, uint8_t byte) {
    IrArrayState s = {0};
    if (p.a == ARR_OPEN)
        return byte == '[' ? pos3(m, POS_ARRAY, ARR_FIRST_WS, array_intern(m, p.b, &s), 0) : 0;
    if (p.a != ARR_FIRST && p.a != ARR_AFTER) return 0;
    const IrArray *f = array_form(m, p.b, &s);
    if (byte == ']') return ir_array_may_close(f, &s) ? m->done_pos : 0;
    return byte == ',' && p.a == ARR_AFTER && array_may_grow(f, &s)
               ? pos3(m, POS_ARRAY, ARR_NEXT_WS, p.b, 0)
               : 0;
}

/* Begins an element in every way that can still be completed. */
static void elements_add(Machine *m, uint32_t a, uint32_t stack) {
    IrArrayState s, next;
    uint32_t form = table_key(&m->arrays, a)[0];
    const IrArray *f = array_form(m, a, &s);
    for (uint32_t choice = 0; choice < 1u << f->n_contains; choice++) {
        if (!ir_array_advance(f, &s, choice, &next) || !ir_array_can_finish(f, &next)) continue;
        uint32_t ret = pos3(m, POS_ARRAY, ARR_AFTER_WS, array_intern(m, form, &next), 0);
        closure_add(m, pos3(m, POS_GOAL, ir_array_element(f, &s)->goals[choice], 0, 0),
                    stack_push(m, stack, ret));
    }
}

/* ---- strings of bounded length ---- */

static uint32_t length_step(Machine *m, Pos p, uint8_t byte) {
    Pos before = machine_pos(m, p.a);
    if (before.b >> 8 == SUB_CHAR) {
        if (byte == '"' ? p.b > 0 : p.c == 0) return 0;
    }
    uint32_t lex = lex_step(m, p.a, byte);
    if (!lex) return 0;
    Pos to = machine_pos(m, lex);
    if (to.b >> 8 == SUB_END) return m->done_pos;
    uint32_t need = p.b, room = p.c;
    if (to.b >> 8 == SUB_CHAR && before.b >> 8 != SUB_OPEN) {
        if (need) need--;
        if (room != LENGTH_FREE) room--;
    }
    return pos3(m, POS_LENGTH, lex, need, room);
}

bool json_pos_names_form(Pos p) {
    return p.kind == POS_OBJECT ? p.a == OBJ_OPEN : p.kind == POS_ARRAY && p.a == ARR_OPEN;
}

/* ---- closures ---- */

static void goal_closure(Machine *m, uint32_t goal, uint32_t stack) {
    const IrGoal *g = &m->ir->goals[goal];
    for (uint32_t i = 0; i < g->n_lexers; i++) closure_add(m, lex_start(m, g->lexers[i]), stack);
    for (uint32_t i = 0; i < g->n_lengths; i++) {
        uint32_t text = lex_start(m, m->ir->string_lexer);
        closure_add(m, pos3(m, POS_LENGTH, text, g->lengths[i].min, g->lengths[i].max), stack);
    }
    for (uint32_t i = 0; i < g->n_objects; i++)
        closure_add(m, pos3(m, POS_OBJECT, OBJ_OPEN, g->objects[i], 0), stack);
    for (uint32_t i = 0; i < g->n_arrays; i++)
        closure_add(m, pos3(m, POS_ARRAY, ARR_OPEN, g->arrays[i], 0), stack);
}

static void spaces_then(Machine *m, Pos p, uint32_t stack) {
    p.a++;
    closure_add(m, m->space_pos, stack_push(m, stack, machine_intern_pos(m, p)));
}

static void key_closure(Machine *m, uint32_t id, Pos p, uint32_t stack) {
    Pos lex = machine_pos(m, p.b);
    bool tail;
    key_alive(m, p.a, &lex, &tail);
    if (!tail) {
        closure_scan(m, id, stack);
        return;
    }
    closure_add(m, p.b, stack_push(m, stack, pos3(m, POS_KEY_RETURN, p.a, 0, 0)));
}

void json_closure(Machine *m, uint32_t id, Pos p, uint32_t stack) {
    switch ((PosKind)p.kind) {
    case POS_GOAL:
        goal_closure(m, p.a, stack);
        break;
    case POS_LENGTH:
        closure_scan(m, id, stack);
        break;
    case POS_KEY:
        key_closure(m, id, p, stack);
        break;
    case POS_DONE:
        closure_pop(m, stack, 0);
        break;
    case POS_OBJECT:
        if (p.a == OBJ_FIRST_WS || p.a == OBJ_AFTER_WS || p.a == OBJ_NEXT_WS)
            spaces_then(m, p, stack);
        else if (p.a != OBJ_OPEN || stack_has_room(m, stack, MACHINE_HEADROOM))
            closure_scan(m, id, stack);
        break;
    case POS_MEMBER:
        if (p.a == MEMBER_COLON)
            closure_scan(m, id, stack);
        else if (p.a == MEMBER_VALUE)
            closure_add(m, pos3(m, POS_GOAL, p.c, 0, 0),
                        stack_push(m, stack, pos3(m, POS_OBJECT, OBJ_AFTER_WS, p.b, 0)));
        else
            spaces_then(m, p, stack);
        break;
    case POS_ARRAY:
        if (p.a == ARR_FIRST_WS || p.a == ARR_AFTER_WS || p.a == ARR_NEXT_WS) {
            spaces_then(m, p, stack);
            break;
        }
        if (p.a == ARR_OPEN && !stack_has_room(m, stack, MACHINE_HEADROOM)) break;
        if (p.a != ARR_NEXT) closure_scan(m, id, stack);
        if (p.a == ARR_FIRST || p.a == ARR_NEXT) elements_add(m, p.b, stack);
        break;
    default:
        break;
    }
}

uint32_t json_step(Machine *m, Pos p, uint8_t byte) {
    switch ((PosKind)p.kind) {
    case POS_LENGTH:
        return length_step(m, p, byte);
    case POS_KEY:
        return key_step(m, p, byte);
    case POS_OBJECT:
        return object_step(m, p, byte);
    case POS_MEMBER:
        return p.a == MEMBER_COLON && byte == ':' ? pos3(m, POS_MEMBER, MEMBER_VALUE_WS, p.b, p.c)
                                                  : 0;
    case POS_ARRAY:
        return array_step(m, p, byte);
    default:
        return 0;
    }
}
