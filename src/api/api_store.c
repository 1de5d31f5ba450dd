/* The model store of mlxcel.h. */
#include <string.h>

#include "api/api.h"
#include "base/mem.h"
#include "hub/hub_download.h"
#include "hub/hub_store.h"

struct mlxcel_download {
    HubDownload d;
    mlxcel_download_options o;
};

mlxcel_download_options mlxcel_download_options_default(void) {
    return (mlxcel_download_options){
        .size = sizeof(mlxcel_download_options), .n_connections = 8, .n_retries = 5};
}

static bool tell(void *ctx, const HubProgress *p) {
    const mlxcel_download_options *o = ctx;
    const mlxcel_download_progress out = {.file = p->file,
                                          .done_bytes = p->done_bytes,
                                          .total_bytes = p->total_bytes,
                                          .n_done = p->n_done,
                                          .n_files = p->n_files,
                                          .waiting = p->waiting};
    return !o->progress || o->progress(o->ctx, &out);
}

bool mlxcel_download_open(const char *name, const mlxcel_download_options *options,
                          mlxcel_download **out, mlxcel_error *error) {
    Err err = {0};
    mlxcel_download *d = mem_calloc(1, sizeof *d);
    if (!d) {
        err_nomem(&err, "a download");
        return api_fail(error, &err);
    }
    mlxcel_download_options *o = &d->o;
    *o = mlxcel_download_options_default();
    if (options) memcpy(o, options, options->size < sizeof *o ? options->size : sizeof *o);
    d->d.ask = (HubAsk){.name = str_c(name),
                        .revision = str_c(o->revision),
                        .local_dir = str_c(o->local_dir),
                        .models_dir = str_c(o->models_dir),
                        .rule = {.include = o->include,
                                 .n_include = o->n_include,
                                 .exclude = o->exclude,
                                 .n_exclude = o->n_exclude},
                        .n_connections = o->n_connections,
                        .n_retries = o->n_retries,
                        .progress = tell,
                        .ctx = o};
    if (hub_download_plan(&d->d, &err)) return *out = d, true;
    mlxcel_download_close(d);
    return api_fail(error, &err);
}

bool mlxcel_download_run(mlxcel_download *d, mlxcel_error *error) {
    Err err = {0};
    return hub_download_run(&d->d, &err) || api_fail(error, &err);
}

const char *mlxcel_download_repo(const mlxcel_download *d) { return d->d.repo.p; }
size_t mlxcel_download_n_files(const mlxcel_download *d) { return d->d.n_files; }
uint64_t mlxcel_download_total_bytes(const mlxcel_download *d) { return d->d.total_bytes; }
uint64_t mlxcel_download_missing_bytes(const mlxcel_download *d) { return d->d.missing_bytes; }
const char *mlxcel_download_path(const mlxcel_download *d) { return d->d.path.p; }

static void put_text(JsonWriter *w, const char *key, Str text) {
    json_w_key(w, str_c(key));
    if (text.n)
        json_w_str(w, text);
    else
        json_w_null(w);
}

static void put_number(JsonWriter *w, const char *key, uint64_t n) {
    json_w_key(w, str_c(key));
    json_w_u64(w, n);
}

bool mlxcel_download_json(const mlxcel_download *download, mlxcel_string **json,
                          mlxcel_error *error) {
    const HubDownload *d = &download->d;
    Buf b = {0};
    JsonWriter w = {.out = &b};
    json_w_object(&w);
    put_text(&w, "repo", d->repo);
    put_text(&w, "revision", d->revision);
    put_text(&w, "commit", d->commit);
    put_text(&w, "path", d->path);
    put_number(&w, "total_bytes", d->total_bytes);
    put_number(&w, "missing_bytes", d->missing_bytes);
    json_w_key(&w, STR("files"));
    json_w_array(&w);
    for (size_t i = 0; i < d->listing.n; i++) {
        const HubFile *f = &d->listing.files[i];
        if (!f->chosen) continue;
        json_w_object(&w);
        put_text(&w, "name", f->path);
        put_number(&w, "size_bytes", f->size);
        put_text(&w, "sha256", f->sha256);
        json_w_end(&w);
    }
    json_w_end(&w);
    json_w_end(&w);
    return api_string(&b, json, error);
}

void mlxcel_download_close(mlxcel_download *d) {
    if (!d) return;
    hub_download_deinit(&d->d);
    mem_free(d);
}

static void put_model(JsonWriter *w, const HubModel *m) {
    json_w_object(w);
    put_text(w, "repo_id", m->name);
    put_text(w, "store", str_c(m->store));
    put_text(w, "path", m->path);
    put_number(w, "size_bytes", m->size_bytes);
    json_w_key(w, STR("modified"));
    json_w_i64(w, m->modified);
    json_w_key(w, STR("own"));
    json_w_bool(w, m->own);
    json_w_key(w, STR("complete"));
    json_w_bool(w, m->path.n > 0);
    json_w_end(w);
}

bool mlxcel_store_list(mlxcel_string **json, mlxcel_error *error) {
    Err err = {0};
    Arena a = {0};
    HubEnv env;
    HubModels all;
    Buf b = {0};
    JsonWriter w = {.out = &b};
    bool ok = hub_env_read(&a, &env, &err) && hub_store_list(&env, &a, &all, &err);
    if (ok) {
        json_w_array(&w);
        for (size_t i = 0; i < all.n; i++) put_model(&w, &all.items[i]);
        json_w_end(&w);
    }
    ok = ok ? api_string(&b, json, error) : api_fail(error, &err);
    arena_deinit(&a);
    return ok;
}

bool mlxcel_store_remove(const char *name, bool dry, uint64_t *bytes, size_t *n_files,
                         mlxcel_error *error) {
    Err err = {0};
    Arena a = {0};
    HubEnv env;
    HubRemoval r = {0};
    bool ok =
        hub_env_read(&a, &env, &err) && hub_store_remove(&env, str_c(name), dry, &a, &r, &err);
    arena_deinit(&a);
    if (bytes) *bytes = r.bytes;
    if (n_files) *n_files = r.n_files;
    return ok || api_fail(error, &err);
}
