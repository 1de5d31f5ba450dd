/* How alike texts are, against libmlxcel alone.
 *
 *     cc embed.c $(pkg-config --cflags --libs mlxcel) -lm -o embed && ./embed MODEL "a cat" "a dog" */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <mlxcel.h>

static void check(bool ok, const mlxcel_error *error) {
    if (ok) return;
    fprintf(stderr, "embed: %s\n", error->message);
    exit(1);
}

int main(int argc, char **argv) {
    mlxcel_error error;
    mlxcel_model *model;
    mlxcel_encoder *encoder;
    int n = argc - 2;
    if (n < 1) return fprintf(stderr, "usage: embed MODEL TEXT ...\n"), 2;
    check(mlxcel_model_open(argv[1], NULL, &model, &error), &error);
    check(mlxcel_encoder_open(model, NULL, &encoder, &error), &error);
    uint32_t width = mlxcel_encoder_width(encoder);
    float *rows = calloc((size_t)n * width, sizeof *rows);
    for (int i = 0; rows && i < n; i++) {
        mlxcel_prompt *text;
        const char *t = argv[i + 2];
        check(mlxcel_text_prompt(model, t, strlen(t), true, false, &text, &error), &error);
        mlxcel_encoder_input in = {mlxcel_prompt_ids(text), NULL, mlxcel_prompt_n_ids(text)};
        check(mlxcel_encoder_run(encoder, &in, 1, rows + (size_t)i * width, &error), &error);
        mlxcel_prompt_free(text);
    }
    for (int i = 0; rows && i < n; i++)
        for (int k = 0; k < n; k++) {
            double dot = 0; /* vectors of length 1: the dot product is the cosine */
            for (uint32_t c = 0; c < width; c++)
                dot += (double)rows[(size_t)i * width + c] * rows[(size_t)k * width + c];
            printf("%6.3f%c", dot, k + 1 < n ? ' ' : '\n');
        }
    free(rows);
    mlxcel_encoder_close(encoder);
    mlxcel_model_close(model);
    return 0;
}
