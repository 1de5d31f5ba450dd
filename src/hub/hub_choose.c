#include "hub/hub_choose.h"

#include "base/buf.h"
#include "hub/hub_glob.h"

/* "-00001-of-00003.gguf" */
enum { PART_TAIL = sizeof "-00001-of-00003.gguf" - 1 };

static bool is_alnum(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

Str hub_base_name(Str path) {
    size_t slash = str_rfind(path, STR("/"));
    return slash == STR_NPOS ? path : str_from(path, slash + 1);
}

bool hub_is_gguf_model(Str path) {
    Str base = hub_base_name(path);
    return base.n > 5 && str_ieq(str_from(base, base.n - 5), STR(".gguf")) &&
           !str_starts(base, STR("mmproj")) && str_find(base, STR("-mmproj"), 0) == STR_NPOS &&
           str_find(base, STR("imatrix"), 0) == STR_NPOS;
}

/* stem, number and count of a part's name. */
static bool part_name(Str path, Str *stem, uint64_t *no, uint64_t *count) {
    if (path.n <= PART_TAIL) return false;
    Str tail = str_from(path, path.n - PART_TAIL);
    *stem = str_slice(path, 0, path.n - PART_TAIL);
    return tail.p[0] == '-' && str_eq(str_slice(tail, 6, 10), STR("-of-")) &&
           str_to_u64(str_slice(tail, 1, 6), no) && str_to_u64(str_slice(tail, 10, 15), count);
}

bool hub_gguf_same(Str a, Str b) {
    Str stem_a, stem_b;
    uint64_t no, count_a, count_b;
    return str_eq(a, b) ||
           (part_name(a, &stem_a, &no, &count_a) && part_name(b, &stem_b, &no, &count_b) &&
            str_eq(stem_a, stem_b) && count_a == count_b);
}

static bool is_first_part(Str path) {
    Str stem;
    uint64_t no, count;
    return !part_name(path, &stem, &no, &count) || no == 1;
}

/* Does the name hold the quantization as a word of its own? loose: "Q4_K" finds Q4_K_M too. */
static bool holds_quant(Str name, Str quant, bool loose) {
    for (size_t i = 0; i + quant.n <= name.n; i++) {
        size_t end = i + quant.n;
        if (!str_ieq(str_slice(name, i, end), quant)) continue;
        if (i > 0 && is_alnum(name.p[i - 1])) continue;
        if (end < name.n && (is_alnum(name.p[end]) || (name.p[end] == '_' && !loose))) continue;
        return true;
    }
    return false;
}

static bool find_quant(const Str *names, size_t n, Str quant, size_t *best) {
    for (int loose = 0; loose < 2; loose++)
        for (size_t i = 0; i < n; i++)
            if (hub_is_gguf_model(names[i]) && is_first_part(names[i]) &&
                holds_quant(names[i], quant, loose))
                return *best = i, true;
    return false;
}

bool hub_gguf_pick(const Str *names, size_t n, Str quant, size_t *best) {
    /* The best mean of size and fidelity first. */
    static const char *const ORDER[] = {"Q4_K_M", "Q4_K_XL", "Q4_K_S", "MXFP4",  "Q4_K",   "IQ4_XS",
                                        "IQ4_NL", "Q4_1",    "Q4_0",   "Q5_K_M", "Q5_K_S", "Q6_K",
                                        "Q8_0",   "Q3_K_M",  "F16",    "BF16"};
    if (quant.n) return find_quant(names, n, quant, best);
    for (size_t k = 0; k < sizeof ORDER / sizeof *ORDER; k++)
        if (find_quant(names, n, str_c(ORDER[k]), best)) return true;
    for (size_t i = 0; i < n; i++)
        if (hub_is_gguf_model(names[i]) && is_first_part(names[i])) return *best = i, true;
    return false;
}

static bool any_glob(const char *const *globs, size_t n, Str path) {
    for (size_t i = 0; i < n; i++)
        if (hub_glob(str_c(globs[i]), path)) return true;
    return false;
}

static bool in_folder(Str path, const char *const *folders, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (str_starts(path, str_c(folders[i]))) return true;
    return false;
}

/* What belongs to a safetensors model. Folders left out hold the same weights for other engines. */
static bool is_model_file(Str path) {
    static const char *const KINDS[] = {".safetensors", ".json", ".jsonl", ".model",
                                        ".tiktoken",    ".txt",  ".jinja"};
    static const char *const OTHERS[] = {"onnx/", "openvino/", "coreml/", "original/", "runs/",
                                         "flax/", "tf/",       ".cache/", ".github/"};
    if (in_folder(path, OTHERS, sizeof OTHERS / sizeof *OTHERS)) return false;
    for (size_t i = 0; i < sizeof KINDS / sizeof *KINDS; i++)
        if (str_ends(path, str_c(KINDS[i]))) return true;
    return false;
}

static bool has_file(const HubFile *files, size_t n, const char *glob) {
    for (size_t i = 0; i < n; i++)
        if (hub_glob(str_c(glob), files[i].path)) return true;
    return false;
}

static void choose_model(HubFile *files, size_t n) {
    bool sharded = has_file(files, n, "model*.safetensors");
    for (size_t i = 0; i < n; i++) {
        Str path = files[i].path;
        /* the same weights once more, under other names */
        bool twice = sharded && str_starts(path, STR("consolidated"));
        files[i].chosen = is_model_file(path) && !twice;
    }
}

static bool name_some(const HubFile *files, size_t n, Str quant, Err *err) {
    Buf b = {.max = 200};
    for (size_t i = 0; i < n && !b.failed; i++)
        if (hub_is_gguf_model(files[i].path) && is_first_part(files[i].path))
            buf_putf(&b, "%s" STR_F, b.n ? ", " : "", STR_A(files[i].path));
    err_set(err, ERR_NOT_FOUND,
            "the repository has no .gguf file named for \"" STR_F "\"; it has " STR_F "%s",
            STR_A(quant), STR_A(b.n ? buf_str(&b) : STR("none at all")), b.failed ? ", ..." : "");
    buf_deinit(&b);
    return false;
}

/* The .gguf files that are wanted: all parts of the one picked. */
static bool choose_gguf(HubFile *files, size_t n, Str quant, Arena *a, Err *err) {
    Str *names = arena_array(a, Str, n);
    size_t best;
    if (!names) return err_nomem(err, "the list of files");
    for (size_t i = 0; i < n; i++) names[i] = files[i].path;
    if (!hub_gguf_pick(names, n, quant, &best)) return name_some(files, n, quant, err);
    for (size_t i = 0; i < n; i++) files[i].chosen = hub_gguf_same(files[i].path, names[best]);
    return true;
}

static bool has_gguf(const HubFile *files, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (hub_is_gguf_model(files[i].path)) return true;
    return false;
}

bool hub_choose(HubFile *files, size_t n, const HubRule *rule, Arena *a, Err *err) {
    size_t left = 0;
    bool plain = has_file(files, n, "*.safetensors") && has_file(files, n, "config.json");
    for (size_t i = 0; i < n; i++) files[i].chosen = false;
    if (rule->quant.n || (!rule->n_include && !plain && has_gguf(files, n))) {
        if (!choose_gguf(files, n, rule->quant, a, err)) return false;
    } else if (!rule->n_include) {
        choose_model(files, n);
    }
    for (size_t i = 0; i < n; i++) {
        if (any_glob(rule->include, rule->n_include, files[i].path)) files[i].chosen = true;
        if (any_glob(rule->exclude, rule->n_exclude, files[i].path)) files[i].chosen = false;
        left += files[i].chosen;
    }
    return left > 0 ||
           err_set(err, ERR_NOT_FOUND, "none of the repository's %zu files is wanted (%s)", n,
                   rule->n_include || rule->n_exclude ? "--include and --exclude leave nothing"
                                                      : "it has neither safetensors nor .gguf");
}
