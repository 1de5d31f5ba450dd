#include "ckpt/safetensors_write.h"

#include <stdio.h>
#include <string.h>

#include "base/os.h"
#include "ckpt/safetensors.h"
#include "json/json_writer.h"

/* Sizes, and which file each tensor goes to: as many as fit, in order. */
static bool layout(SafetensorsOut *o, uint64_t max_bytes, Err *err) {
    uint64_t in_file = 0;
    o->n_files = 1;
    for (size_t i = 0; i < o->n_tensors; i++) {
        CkptTensor *t = &o->tensors[i];
        uint64_t n = 1, k = t->n_dims ? t->shape[t->n_dims - 1] : 1;
        for (int d = 0; d < t->n_dims; d++)
            if (__builtin_mul_overflow(n, t->shape[d], &n))
                return err_set(err, ERR_LIMIT, "tensor " STR_F " is too large", STR_A(t->name));
        if (!dtype_info(t->dtype)->safetensors || !dtype_bytes(t->dtype, n, k, &t->n_bytes, err))
            return err_set(err, ERR_INTERNAL, "tensor " STR_F " of type %s cannot be written",
                           STR_A(t->name), dtype_info(t->dtype)->name);
        if (in_file && in_file + t->n_bytes > max_bytes) {
            o->n_files++;
            in_file = 0;
        }
        t->i_file = (int)(o->n_files - 1);
        t->offset = in_file;
        in_file += t->n_bytes;
        o->total_bytes += t->n_bytes;
    }
    return true;
}

static void file_name(const SafetensorsOut *o, size_t i, char *out, size_t n) {
    if (o->n_files == 1)
        snprintf(out, n, "model.safetensors");
    else
        snprintf(out, n, "model-%05zu-of-%05zu.safetensors", i + 1, o->n_files);
}

/* The JSON of one file: offsets count from the data's start. */
static void put_header(const SafetensorsOut *o, size_t i_file, Buf *out) {
    JsonWriter w = {.out = out};
    json_w_object(&w);
    json_w_key(&w, STR("__metadata__"));
    json_w_object(&w);
    json_w_key(&w, STR("format"));
    json_w_str(&w, STR("mlx"));
    json_w_end(&w);
    for (size_t i = 0; i < o->n_tensors; i++) {
        const CkptTensor *t = &o->tensors[i];
        if ((size_t)t->i_file != i_file) continue;
        json_w_key(&w, t->name);
        json_w_object(&w);
        json_w_key(&w, STR("dtype"));
        json_w_str(&w, str_c(dtype_info(t->dtype)->safetensors));
        json_w_key(&w, STR("shape"));
        json_w_array(&w);
        for (int d = 0; d < t->n_dims; d++) json_w_u64(&w, t->shape[d]);
        json_w_end(&w);
        json_w_key(&w, STR("data_offsets"));
        json_w_array(&w);
        json_w_u64(&w, t->offset);
        json_w_u64(&w, t->offset + t->n_bytes);
        json_w_end(&w);
        json_w_end(&w);
    }
    json_w_end(&w);
    while (out->n % 8) buf_putc(out, ' ');
}

/* Opens a file and writes its header; the tensors' offsets then count from the file's start. */
static bool open_file(SafetensorsOut *o, size_t i_file, Err *err) {
    char name[64];
    Buf path = {0}, header = {.max = SAFETENSORS_MAX_HEADER_BYTES};
    uint8_t length[8];
    file_name(o, i_file, name, sizeof name);
    buf_putf(&path, "%s/%s", o->dir, name);
    put_header(o, i_file, &header);
    for (int i = 0; i < 8; i++) length[i] = (uint8_t)((uint64_t)header.n >> 8 * i);
    bool ok = buf_check(&header, "a safetensors header", err) &&
              fileout_open(&o->files[i_file], buf_cstr(&path), o->a, err) &&
              fileout_put(&o->files[i_file], 0, length, 8, err) &&
              fileout_put(&o->files[i_file], 8, header.p, header.n, err);
    for (size_t i = 0; i < o->n_tensors; i++)
        if ((size_t)o->tensors[i].i_file == i_file) o->tensors[i].offset += 8 + header.n;
    buf_deinit(&path);
    buf_deinit(&header);
    return ok;
}

bool safetensors_write_open(SafetensorsOut *o, const char *dir, const CkptTensor *tensors, size_t n,
                            uint64_t max_bytes, Arena *a, Err *err) {
    *o = (SafetensorsOut){.dir = dir, .n_tensors = n, .a = a};
    o->tensors = arena_array(a, CkptTensor, n + 1);
    o->written = arena_array(a, uint64_t, n + 1);
    if (!o->tensors || !o->written) return err_nomem(err, "a tensor table");
    if (n) memcpy(o->tensors, tensors, n * sizeof *tensors);
    if (!layout(o, max_bytes, err)) return false;
    o->files = arena_array(a, FileOut, o->n_files);
    if (!o->files) return err_nomem(err, "a tensor table");
    for (size_t i = 0; i < o->n_files; i++) o->files[i] = FILEOUT_NONE;
    for (size_t i = 0; i < o->n_files; i++)
        if (!open_file(o, i, err)) return false;
    return true;
}

bool safetensors_write_put(SafetensorsOut *o, size_t i, uint64_t at, const void *bytes, size_t n,
                           Err *err) {
    const CkptTensor *t = &o->tensors[i];
    if (at > t->n_bytes || n > t->n_bytes - at)
        return err_set(err, ERR_INTERNAL, "more bytes than tensor " STR_F " has", STR_A(t->name));
    o->written[i] += n;
    return fileout_put(&o->files[t->i_file], t->offset + at, bytes, n, err);
}

bool safetensors_write_holes(SafetensorsOut *o, Err *err) {
    for (size_t i = 0; i < o->n_tensors; i++) {
        const CkptTensor *t = &o->tensors[i];
        if (o->written[i] == t->n_bytes) continue;
        if (!safetensors_write_put(o, i, t->n_bytes - 1, "", 1, err)) return false;
        o->written[i] = t->n_bytes;
    }
    return true;
}

static bool write_index(const SafetensorsOut *o, Err *err) {
    char name[64];
    Buf path = {0}, text = {.max = (size_t)1 << 30};
    JsonWriter w = {.out = &text, .indent = 4};
    json_w_object(&w);
    json_w_key(&w, STR("metadata"));
    json_w_object(&w);
    json_w_key(&w, STR("total_size"));
    json_w_u64(&w, o->total_bytes);
    json_w_end(&w);
    json_w_key(&w, STR("weight_map"));
    json_w_object(&w);
    for (size_t i = 0; i < o->n_tensors; i++) {
        file_name(o, (size_t)o->tensors[i].i_file, name, sizeof name);
        json_w_key(&w, o->tensors[i].name);
        json_w_str(&w, str_c(name));
    }
    json_w_end(&w);
    json_w_end(&w);
    buf_putc(&text, '\n');
    buf_putf(&path, "%s/model.safetensors.index.json", o->dir);
    bool ok = buf_check(&text, "a safetensors index", err) &&
              os_write_file(buf_cstr(&path), buf_str(&text), err);
    buf_deinit(&path);
    buf_deinit(&text);
    return ok;
}

bool safetensors_write_finish(SafetensorsOut *o, Err *err) {
    for (size_t i = 0; i < o->n_tensors; i++)
        if (o->written[i] != o->tensors[i].n_bytes)
            return err_set(err, ERR_INTERNAL, "tensor " STR_F " is not complete",
                           STR_A(o->tensors[i].name));
    for (size_t i = 0; i < o->n_files; i++)
        if (!fileout_finish(&o->files[i], err)) return false;
    return write_index(o, err);
}

void safetensors_write_drop(SafetensorsOut *o) {
    for (size_t i = 0; o->files && i < o->n_files; i++) fileout_drop(&o->files[i]);
}
